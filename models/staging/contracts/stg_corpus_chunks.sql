with landed as (
    select * from {{ landed_rows('corpus_chunks') }}
),

typed as (
    select
        sha256(row(passage_id, coalesce({{ present('corpus_snapshot_id') }}, ''))::varchar) as corpus_chunk_id,
        passage_id,
        doc_id,
        {{ present('corpus_snapshot_id') }} as corpus_snapshot_id,
        content,
        coalesce(content_hash, sha256(content)) as content_hash,
        chunk_index,
        start_char,
        end_char,
        n_tokens,
        {{ present('chunker_version') }} as chunker_version,
        {{ present('embedding_model') }} as embedding_model,
        embedding,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        {{ utc_timestamp('ingested_at') }} as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
