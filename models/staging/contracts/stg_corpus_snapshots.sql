with landed as (
    select * from {{ landed_rows('corpus_snapshots') }}
),

typed as (
    select
        snapshot_id,
        {{ present('chunker_version') }} as chunker_version,
        chunker_params,
        {{ present('embedding_model') }} as embedding_model,
        embedding_params,
        {{ present('index_version') }} as index_version,
        index_params,
        n_documents,
        n_chunks,
        code_sha,
        {{ utc_timestamp('created_at') }} as created_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('created_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
