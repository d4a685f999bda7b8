{% macro eval_runs_columns() %}
    {{ return({
        'eval_run_id': 'VARCHAR', 'started_at': 'VARCHAR', 'query_set': 'VARCHAR', 'kind': 'VARCHAR',
        'code_sha': 'VARCHAR', 'index_version': 'VARCHAR', 'embedding_model': 'VARCHAR',
        'chunker_version': 'VARCHAR', 'reranker_version': 'VARCHAR', 'prompt_version': 'VARCHAR',
        'corpus_snapshot_id': 'VARCHAR', 'index_params': 'JSON', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro eval_runs_reject_reason() -%}
case
    when {{ present('eval_run_id') }} is null then 'missing_eval_run_id'
    when started_at is null then 'missing_started_at'
    when {{ utc_timestamp('started_at') }} is null then 'bad_started_at'
    when query_set is null then 'missing_query_set'
    when kind not in ('scheduled', 'adhoc') then 'unknown_kind'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
