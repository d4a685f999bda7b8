{% macro queries_columns() %}
    {{ return({
        'query_id': 'VARCHAR', 'query': 'VARCHAR', 'intent': 'VARCHAR', 'query_set': 'VARCHAR',
        'is_canary': 'BOOLEAN', 'added_at': 'VARCHAR', 'expected_answer': 'VARCHAR',
        'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro queries_reject_reason() -%}
case
    when {{ present('query_id') }} is null then 'missing_query_id'
    when query is null then 'missing_query'
    when added_at is not null and {{ utc_timestamp('added_at') }} is null then 'bad_added_at'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
