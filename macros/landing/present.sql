{#- An id as it was landed, NULL where it is blank: blank ids are no ids, and never equal each other. -#}
{% macro present(id) -%}
case when trim({{ id }}) <> '' then {{ id }} end
{%- endmacro %}
