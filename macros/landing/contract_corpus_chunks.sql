{% macro corpus_chunks_columns() %}
    {{ return({
        'passage_id': 'VARCHAR', 'doc_id': 'VARCHAR', 'content': 'VARCHAR', 'content_hash': 'VARCHAR',
        'chunk_index': 'BIGINT', 'start_char': 'BIGINT', 'end_char': 'BIGINT', 'n_tokens': 'BIGINT',
        'chunker_version': 'VARCHAR', 'embedding_model': 'VARCHAR', 'embedding': 'FLOAT[]',
        'corpus_snapshot_id': 'VARCHAR', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro corpus_chunks_reject_reason() -%}
case
    when {{ present('passage_id') }} is null then 'missing_passage_id'
    when {{ present('doc_id') }} is null then 'missing_doc_id'
    when content is null and content_hash is null then 'missing_content'
    when {{ is_negative(['chunk_index', 'start_char', 'n_tokens']) }} then 'negative_count'
    when end_char < start_char then 'bad_offsets'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
