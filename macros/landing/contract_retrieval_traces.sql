{% macro retrieval_traces_columns() %}
    {% set ranked = 'STRUCT(chunk_id VARCHAR, score DOUBLE, rank DOUBLE)[]' %}
    {{ return({
        'trace_id': 'VARCHAR', 'session_id': 'VARCHAR', 'user_id': 'VARCHAR', 'ts': 'VARCHAR',
        'query': 'VARCHAR', 'query_id': 'VARCHAR', 'top_k': 'BIGINT',
        'retrieved': ranked, 'candidates': ranked,
        'index_version': 'VARCHAR', 'embedding_model': 'VARCHAR', 'chunker_version': 'VARCHAR',
        'reranker_version': 'VARCHAR', 'prompt_version': 'VARCHAR', 'corpus_snapshot_id': 'VARCHAR',
        'experiment_id': 'VARCHAR', 'experiment_bucket': 'VARCHAR', 'intent': 'VARCHAR',
        'environment': 'VARCHAR', 'eval_run_id': 'VARCHAR', 'sample_rate': 'VARCHAR',
        'filters': 'JSON', 'filter_empty': 'BOOLEAN',
        'retrieval_latency_ms': 'DOUBLE', 'rerank_latency_ms': 'DOUBLE',
        'score_type': 'VARCHAR', 'higher_is_better': 'BOOLEAN', 'error': 'VARCHAR',
        'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro retrieval_traces_reject_reason() -%}
case
    when ts is null then 'missing_ts'
    when {{ utc_timestamp('ts') }} is null then 'bad_ts'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
    when ingested_at is not null and {{ utc_timestamp('ts') }} > {{ utc_timestamp('ingested_at') }} + interval 1 hour
        then 'future_ts'
    when sample_rate is not null and not coalesce(try_cast(sample_rate as double) between 1e-6 and 1, false)
        then 'bad_sample_rate'
    {%- for list in ['retrieved', 'candidates'] %}
    when {{ says_nothing(list) }} then 'bad_{{ list }}'
    {%- endfor %}
end
{%- endmacro %}

{#- A trace that came without an id is known by what it is: session, time and query. -#}
{% macro trace_key() -%}
coalesce({{ present('trace_id') }}, sha256(row({{ present('session_id') }}, traced_at, query)::varchar))
{%- endmacro %}
