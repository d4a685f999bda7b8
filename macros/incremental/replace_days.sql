{#- Incremental strategy `replace_days`: delete every affected day, also those now empty, then
    insert, in one transaction. dbt's delete+insert deletes only days present among the new rows,
    so an emptied day would keep its stale rows. -#}
{% macro get_incremental_replace_days_sql(arg_dict) %}
    {%- set columns = get_quoted_csv(arg_dict['dest_columns'] | map(attribute='name')) %}
    delete from {{ arg_dict['target_relation'] }} where {{ is_affected('traced_on') }};
    insert into {{ arg_dict['target_relation'] }} ({{ columns }})
    select {{ columns }} from {{ arg_dict['temp_relation'] }}
{% endmacro %}
