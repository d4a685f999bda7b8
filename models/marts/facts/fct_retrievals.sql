with traces as (
    select * from {{ ref('int_traces') }}
    where {{ is_affected('traced_on') }}
),

known_queries as (
    select * from {{ ref('stg_queries') }}
),

asked as (
    select traced_on, session_id, query from {{ ref('int_traces') }}
    where {{ is_affected('traced_on') }} and query is not null
),

normalised as (
    -- traffic repeats itself: a question is looked at once
    select query, {{ normalised_query('query') }} as normalised_query
    from (select distinct query from asked)
),

questions as (
    select *, {{ ruled_intent('normalised_query') }} as ruled_intent from normalised
),

query_days as (
    select asked.traced_on, normalised.normalised_query, count(distinct asked.session_id) as n_sessions
    from asked
    inner join normalised using (query)
    where normalised.normalised_query is not null
    group by asked.traced_on, normalised.normalised_query
)

select
    traces.trace_id,
    traces.traced_on,
    traces.traced_at,
    traces.session_id,
    traces.user_id,
    traces.query_id,
    traces.query,
    traces.traffic,
    traces.environment,
    traces.eval_run_id,
    coalesce(traces.intent, known_queries.intent, questions.ruled_intent, 'unknown') as intent,
    query_days.n_sessions <= {{ var('long_tail_max_sessions') }} as is_long_tail,
    traces.index_version,
    traces.embedding_model,
    traces.chunker_version,
    traces.reranker_version,
    traces.prompt_version,
    traces.corpus_snapshot_id,
    traces.experiment_id,
    traces.experiment_bucket,
    traces.sample_rate,
    traces.top_k,
    len(traces.retrieved)::integer as n_returned,
    len(traces.candidates)::integer as n_candidates,
    coalesce(len(traces.retrieved) = 0, false) as is_no_results,
    traces.filter_empty as is_filter_empty,
    traces.is_fault,
    traces.is_missing,
    traces.error,
    traces.n_duplicates::integer as n_duplicates,
    traces.n_candidate_duplicates::integer as n_candidate_duplicates,
    len(list_filter(traces.retrieved, lambda chunk: chunk.chunk_id is null))::integer as n_blank_chunk_ids,
    traces.n_non_finite_scores::integer as n_non_finite_scores,
    traces.score_type,
    traces.higher_is_better,
    traces.retrieved[1].score as top_score,
    traces.retrieved[-1].score as bottom_score,
    traces.retrieval_latency_ms,
    traces.rerank_latency_ms,
    {{ current_day_version() }}::integer as day_version
from traces
left join known_queries on traces.query_id = known_queries.query_id
left join questions on traces.query = questions.query
left join query_days
    on traces.traced_on = query_days.traced_on
    and questions.normalised_query = query_days.normalised_query
