{#- A question whatever its spacing and case; NULL where nothing was asked. -#}
{% macro normalised_query(query) -%}
nullif(lower(trim(regexp_replace({{ query }}, '\s+', ' ', 'g'))), '')
{%- endmacro %}
