with landed as (
    select * from {{ landed_rows('eval_runs') }}
    where {{ eval_runs_reject_reason() }} is null
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
        {{ utc_timestamp('started_at') }} as started_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('started_at') }}) as delivered_at,
        file_id,
        load_id
    from landed
),

{{ newest_delivery('typed', 'eval_run_id', day='started_at::date') }}
