with landed as (
    select * from {{ landed_rows('eval_runs') }}
),

typed as (
    select
        eval_run_id,
        query_set,
        coalesce(kind, 'scheduled') as kind,
        code_sha,
        index_version,
        embedding_model,
        chunker_version,
        reranker_version,
        prompt_version,
        corpus_snapshot_id,
        index_params,
        {{ utc_timestamp('started_at') }} as started_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('started_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
