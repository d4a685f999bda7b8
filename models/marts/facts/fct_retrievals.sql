with traces as (
    select * from {{ ref('int_traces') }}
    where {{ is_affected('traced_on') }}
),

queries as (
    select * from {{ ref('stg_queries') }}
),

intent_rules as (
    select * from {{ ref('intent_rules') }}
),

normalised as (
    select *, {{ normalised_query('query') }} as normalised_query
    from traces
),

query_days as (
    select traced_on, normalised_query, count(distinct session_id) as n_sessions
    from normalised
    where normalised_query is not null
    group by traced_on, normalised_query
),

ruled_intents as (
    -- the first pattern that matches decides
    select asked.normalised_query, arg_min(intent_rules.intent, intent_rules.priority) as intent
    from (select distinct normalised_query from query_days) as asked
    inner join intent_rules on regexp_matches(asked.normalised_query, intent_rules.pattern)
    group by asked.normalised_query
)

select
    normalised.trace_id,
    normalised.traced_on,
    normalised.traced_at,
    normalised.session_id,
    normalised.user_id,
    normalised.query_id,
    normalised.query,
    normalised.traffic,
    normalised.environment,
    normalised.eval_run_id,
    coalesce(normalised.intent, queries.intent, ruled_intents.intent, 'unknown') as intent,
    query_days.n_sessions <= {{ var('long_tail_max_sessions') }} as is_long_tail,
    normalised.index_version,
    normalised.embedding_model,
    normalised.chunker_version,
    normalised.reranker_version,
    normalised.prompt_version,
    normalised.corpus_snapshot_id,
    normalised.experiment_id,
    normalised.experiment_bucket,
    normalised.sample_rate,
    normalised.top_k,
    len(normalised.retrieved)::integer as n_returned,
    len(normalised.candidates)::integer as n_candidates,
    coalesce(len(normalised.retrieved) = 0, false) as is_no_results,
    normalised.filter_empty as is_filter_empty,
    normalised.is_fault,
    normalised.is_missing,
    normalised.error,
    normalised.n_duplicates::integer as n_duplicates,
    normalised.n_candidate_duplicates::integer as n_candidate_duplicates,
    len(list_filter(normalised.retrieved, lambda chunk: chunk.chunk_id is null))::integer as n_blank_chunk_ids,
    normalised.n_non_finite_scores::integer as n_non_finite_scores,
    normalised.score_type,
    normalised.higher_is_better,
    normalised.retrieved[1].score as top_score,
    normalised.retrieved[-1].score as bottom_score,
    normalised.retrieval_latency_ms,
    normalised.rerank_latency_ms,
    {{ current_day_version() }}::integer as day_version
from normalised
left join queries on normalised.query_id = queries.query_id
left join ruled_intents on normalised.normalised_query = ruled_intents.normalised_query
left join query_days
    on normalised.traced_on = query_days.traced_on
    and normalised.normalised_query = query_days.normalised_query
