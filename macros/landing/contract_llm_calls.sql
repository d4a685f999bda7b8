{% macro llm_calls_columns() %}
    {{ return({
        'call_id': 'VARCHAR', 'ts': 'VARCHAR', 'purpose': 'VARCHAR', 'model': 'VARCHAR', 'provider': 'VARCHAR',
        'trace_id': 'VARCHAR', 'eval_run_id': 'VARCHAR', 'input_tokens': 'BIGINT', 'output_tokens': 'BIGINT',
        'cached_tokens': 'BIGINT', 'cost_usd': 'DOUBLE', 'attempts': 'BIGINT', 'status': 'VARCHAR',
        'latency_ms': 'DOUBLE', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro llm_calls_reject_reason() -%}
case
    when {{ present('call_id') }} is null then 'missing_call_id'
    when ts is null then 'missing_ts'
    when {{ utc_timestamp('ts') }} is null then 'bad_ts'
    when {{ present('purpose') }} is null then 'missing_purpose'
    when {{ present('model') }} is null then 'missing_model'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
    when ingested_at is not null and {{ utc_timestamp('ts') }} > {{ utc_timestamp('ingested_at') }} + interval 1 hour
        then 'future_ts'
    when {{ is_negative(['input_tokens', 'output_tokens', 'cached_tokens', 'attempts']) }} then 'negative_count'
    when {{ is_negative(['cost_usd']) }} then 'bad_cost_usd'
end
{%- endmacro %}
