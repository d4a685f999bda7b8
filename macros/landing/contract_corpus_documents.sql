{% macro corpus_documents_columns() %}
    {{ return({
        'doc_id': 'VARCHAR', 'content': 'VARCHAR', 'content_hash': 'VARCHAR', 'title': 'VARCHAR',
        'source_uri': 'VARCHAR', 'license': 'VARCHAR', 'language': 'VARCHAR', 'metadata': 'JSON',
        'corpus_snapshot_id': 'VARCHAR', 'collected_at': 'VARCHAR', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro corpus_documents_reject_reason() -%}
case
    when {{ present('doc_id') }} is null then 'missing_doc_id'
    when content is null and content_hash is null then 'missing_content'
    when collected_at is not null and {{ utc_timestamp('collected_at') }} is null then 'bad_collected_at'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
