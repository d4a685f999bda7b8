{% macro answers_columns() %}
    {{ return({
        'answer_id': 'VARCHAR', 'ts': 'VARCHAR', 'trace_id': 'VARCHAR', 'session_id': 'VARCHAR',
        'citations': 'STRUCT(chunk_id VARCHAR, quote VARCHAR, claim VARCHAR, supported BOOLEAN)[]',
        'prompt_chunk_ids': 'VARCHAR[]', 'answer_text': 'VARCHAR', 'is_correct': 'BOOLEAN',
        'schema_valid': 'BOOLEAN', 'scores': 'MAP(VARCHAR, DOUBLE)', 'model': 'VARCHAR',
        'prompt_version': 'VARCHAR', 'input_tokens': 'BIGINT', 'output_tokens': 'BIGINT',
        'cached_tokens': 'BIGINT', 'cost_usd': 'DOUBLE', 'attempts': 'BIGINT', 'latency_ms': 'DOUBLE',
        'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro answers_reject_reason() -%}
case
    when {{ present('answer_id') }} is null then 'missing_answer_id'
    when {{ present('session_id') }} is null and {{ present('trace_id') }} is null then 'missing_session_and_trace'
    when ts is null then 'missing_ts'
    when {{ utc_timestamp('ts') }} is null then 'bad_ts'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
    when ingested_at is not null and {{ utc_timestamp('ts') }} > {{ utc_timestamp('ingested_at') }} + interval 1 hour
        then 'future_ts'
    when len(citations) > 0 and len(list_filter(
        citations, lambda item: coalesce(item.chunk_id, item.quote, item.claim, item.supported::varchar) is not null
    )) = 0 then 'bad_citations'
    when {{ is_negative(['input_tokens', 'output_tokens', 'cached_tokens', 'attempts']) }} then 'negative_count'
    when {{ is_negative(['cost_usd']) }} then 'bad_cost_usd'
end
{%- endmacro %}

{#- Is one of these numbers below zero, or no finite number? -#}
{% macro is_negative(columns) -%}
({% for column in columns %}coalesce(not {{ column }} between 0 and 1e300, false){{ ' or ' if not loop.last }}{% endfor %})
{%- endmacro %}
