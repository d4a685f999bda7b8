{#- An id as it was landed, NULL where it is blank: blank ids are no ids, and never equal each other.
    What starts with a visible character is not blank, and need not be trimmed to know it. -#}
{% macro present(id) -%}
case when {{ id }} >= '!' or trim({{ id }}) <> '' then {{ id }} end
{%- endmacro %}
