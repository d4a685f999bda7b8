{#- The document of a chunk, by the declared pattern of its id; the chunk itself where none is declared. -#}
{% macro document_of(chunk_id) -%}
{%- if var('document_id_pattern') -%}
coalesce(nullif(regexp_extract({{ chunk_id }}, '{{ var("document_id_pattern") }}', 1), ''), {{ chunk_id }})
{%- else -%}
{{ chunk_id }}
{%- endif -%}
{%- endmacro %}
