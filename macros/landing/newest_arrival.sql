{#- When what landed last of a contract arrived, for source freshness. Traces that never came are late;
    a contract that a team does not land is not. -#}
{% macro newest_arrival(contract) -%}
{%- set landed = landing_relation(contract) -%}
select coalesce(max(arrived_at), {{ "'epoch'::timestamptz" if contract == 'retrieval_traces' else 'now()' }}) as arrived_at
from (
    select last_modified as arrived_at
    from read_blob('{{ landing_path() }}/*/**')
    where starts_with(filename, '{{ landing_path() }}/{{ contract }}/')
        and not regexp_matches(right(filename, -length('{{ landing_path() }}')), '/[._]')
    {%- if landed %}
    union all
    select {{ landed.arrival_column }}::timestamp at time zone 'UTC' from {{ landed.relation }}
    {%- endif %}
)
{%- endmacro %}
