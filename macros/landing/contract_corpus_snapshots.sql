{% macro corpus_snapshots_columns() %}
    {{ return({
        'snapshot_id': 'VARCHAR', 'created_at': 'VARCHAR', 'chunker_version': 'VARCHAR',
        'chunker_params': 'JSON', 'embedding_model': 'VARCHAR', 'embedding_params': 'JSON',
        'index_version': 'VARCHAR', 'index_params': 'JSON', 'n_documents': 'BIGINT', 'n_chunks': 'BIGINT',
        'code_sha': 'VARCHAR', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro corpus_snapshots_reject_reason() -%}
case
    when {{ present('snapshot_id') }} is null then 'missing_snapshot_id'
    when created_at is null then 'missing_created_at'
    when {{ utc_timestamp('created_at') }} is null then 'bad_created_at'
    when {{ is_negative(['n_documents', 'n_chunks']) }} then 'negative_count'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
