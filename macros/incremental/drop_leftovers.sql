{#- on-run-start and on-run-end: what dbt left beside the tables. A killed night leaves what it was
    about to swap in, an incremental Python model its new rows every time. -#}
{% macro drop_leftovers() %}
{%- if execute %}
{%- set schema = api.Relation.create(database=target.database, schema=target.schema) %}
{%- set relations = list_relations_without_caching(schema) %}
{#- asking has begun a transaction; what is dropped in it would come back with its end #}
{%- do adapter.commit() %}
{%- for relation in relations if '__dbt_' in relation.name %}
drop {{ relation.type }} if exists {{ adapter.quote(relation.schema) }}.{{ adapter.quote(relation.name) }};
{%- endfor %}
{%- endif %}
{% endmacro %}
