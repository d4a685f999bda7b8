{#- A Python model takes no contract: this compares its declared columns and types with the table's,
    in order, and returns what differs. -#}
{% test declared_columns(model) %}
{%- if execute %}
{%- set declared = graph.nodes.values() | selectattr('name', 'equalto', model.identifier) | first -%}
with declared as (
    select * from (values
        {%- for column in declared.columns.values() %}
        ({{ loop.index }}, '{{ column.name }}', '{{ column.data_type | upper }}'){{ ',' if not loop.last }}
        {%- endfor %}
    ) as columns (place, name, data_type)
),

actual as (
    select ordinal_position as place, column_name as name, data_type
    from information_schema.columns
    where table_schema = '{{ model.schema }}' and table_name = '{{ model.identifier }}'
        and table_catalog = '{{ model.database }}'
)

select place, declared.name as declared_name, declared.data_type as declared_type, actual.name, actual.data_type
from declared
full join actual using (place)
where declared.name is distinct from actual.name or declared.data_type is distinct from actual.data_type
{%- endif %}
{% endtest %}
