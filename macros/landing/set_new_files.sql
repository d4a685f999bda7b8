{#- Pre-hook of a staging model: the landed files it has not read yet, as two variables of the
    connection. Table functions take no subquery, so a variable carries the list. A list is never
    empty: /dev/null reads as an empty JSON file and write_empty_parquet keeps its Parquet twin. -#}
{% macro set_new_files(model) -%}
{%- set unread -%}
    from {{ ref('stg_landing_files') }}
    where contract = '{{ model.identifier | replace("stg_", "", 1) }}'
    {%- if is_incremental() %}
        and load_id > (select coalesce(max(load_id), 0) from {{ model }})
    {%- endif %}
{%- endset -%}
set variable rq_json_files = (
    select coalesce(list(path_to_read order by file_id), ['/dev/null']) {{ unread }} and file_format = 'json'
);
set variable rq_parquet_files = (
    select coalesce(list(path_to_read order by file_id), ['{{ empty_parquet_path() }}'])
    {{ unread }} and file_format = 'parquet'
)
{%- endmacro %}

{% macro landing_path() %}{{ return(env_var('RQ_LANDING', 'landing')) }}{% endmacro %}

{% macro empty_parquet_path() %}{{ return(target.path ~ '.empty.parquet') }}{% endmacro %}

{% macro write_empty_parquet() %}
copy (select null::varchar as nothing where false) to '{{ empty_parquet_path() }}' (format parquet)
{% endmacro %}
