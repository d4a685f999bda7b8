with described as (
    select
        traced_on,
        traced_at,
        trace_id,
        traffic,
        session_id,
        intent,
        -- one over the sample rate, in millionths
        round(1e6 / sample_rate)::bigint as weight,
        n_returned,
        n_candidates,
        n_duplicates,
        n_candidate_duplicates,
        is_fault,
        is_missing,
        -- every dimension a segment can be declared by
        {
            'intent': intent,
            'long_tail': case when is_long_tail then 'long_tail' when not is_long_tail then 'head' else 'unknown' end,
            'index_version': coalesce(index_version, 'unknown'),
            'embedding_model': coalesce(embedding_model, 'unknown'),
            'chunker_version': coalesce(chunker_version, 'unknown'),
            'reranker_version': coalesce(reranker_version, 'unknown'),
            'prompt_version': coalesce(prompt_version, 'unknown'),
            'corpus_snapshot_id': coalesce(corpus_snapshot_id, 'unknown'),
            'experiment_id': coalesce(experiment_id, 'unknown'),
            'experiment_bucket': coalesce(experiment_bucket, 'unknown'),
            'environment': coalesce(environment, 'unknown'),
            'score_type': coalesce(score_type, 'unknown')
        } as segments
    from {{ ref('fct_retrievals') }}
)

select
    *,
    -- compared within a day only, whose rows are made together: it need not be the same hash for ever
    hash(segments) as segment_key
from described
