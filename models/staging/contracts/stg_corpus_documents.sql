with landed as (
    select * from {{ landed_rows('corpus_documents') }}
),

typed as (
    select
        sha256(row(doc_id, coalesce({{ present('corpus_snapshot_id') }}, ''))::varchar) as corpus_document_id,
        doc_id,
        {{ present('corpus_snapshot_id') }} as corpus_snapshot_id,
        content,
        coalesce(content_hash, sha256(content)) as content_hash,
        title,
        source_uri,
        license,
        language,
        metadata,
        {{ utc_timestamp('collected_at') }} as collected_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('collected_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
