{#- The intent of the first rule that matches, NULL where none does. Written out from the seed, because a
    pattern that is a constant is compiled once, and one that stands in a table for every row. -#}
{% macro ruled_intent(query) -%}
{%- if execute -%}
{%- set rules = run_query('select intent, pattern from ' ~ ref('intent_rules') ~ ' order by priority, intent, pattern') -%}
case
    {%- for rule in rules.rows %}
    when regexp_matches({{ query }}, '{{ rule[1] | replace("'", "''") }}') then '{{ rule[0] | replace("'", "''") }}'
    {%- endfor %}
end
{%- else -%}
{{ ref('intent_rules') }}
{%- endif -%}
{%- endmacro %}
