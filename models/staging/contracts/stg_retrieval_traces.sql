with landed as (
    select * from {{ landed_rows('retrieval_traces') }}
),

ordered as (
    -- the recorded rank decides where ranks are distinct, else the position in the array
    select
        * exclude (ts, ingested_at, retrieved, candidates),
        {{ utc_timestamp('ts') }} as traced_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        {{ in_rank_order('retrieved') }} as retrieved,
        {{ in_rank_order('candidates') }} as candidates
    from landed
),

deduplicated as (
    -- a chunk counts once, at its best rank; a blank id keeps its place
    select
        * exclude (retrieved, candidates),
        {{ first_of_each_chunk('retrieved') }} as retrieved,
        {{ first_of_each_chunk('candidates') }} as candidates,
        len(retrieved) as n_retrieved_landed,
        len(candidates) as n_candidates_landed
    from ordered
),

typed as (
    select
        -- ids
        {{ trace_key() }} as trace_id,
        coalesce({{ present('session_id') }}, {{ trace_key() }}) as session_id,
        user_id,
        {{ present('query_id') }} as query_id,
        {{ present('eval_run_id') }} as eval_run_id,

        -- times
        traced_at,
        traced_at::date as traced_on,
        ingested_at,
        coalesce(ingested_at, traced_at) as delivered_at,

        -- the question and what came back, best first
        query,
        {{ present('intent') }} as intent,
        try_cast(top_k as integer) as top_k,
        {{ with_rank('retrieved') }} as retrieved,
        {{ with_rank('candidates') }} as candidates,
        n_retrieved_landed - len(retrieved) as n_duplicates,
        n_candidates_landed - len(candidates) as n_candidate_duplicates,
        {{ n_non_finite('retrieved') }} as n_non_finite_scores,
        score_type,
        higher_is_better,
        filters,
        filter_empty,
        error,

        -- versions and circumstances
        {{ present('index_version') }} as index_version,
        {{ present('embedding_model') }} as embedding_model,
        {{ present('chunker_version') }} as chunker_version,
        {{ present('reranker_version') }} as reranker_version,
        {{ present('prompt_version') }} as prompt_version,
        {{ present('corpus_snapshot_id') }} as corpus_snapshot_id,
        {{ present('experiment_id') }} as experiment_id,
        {{ present('experiment_bucket') }} as experiment_bucket,
        {{ present('environment') }} as environment,
        coalesce(try_cast(sample_rate as double), 1.0) as sample_rate,
        retrieval_latency_ms,
        rerank_latency_ms,

        -- where it came from
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from deduplicated
)

{{ deliveries('typed') }}
