with traces as (
    select * from {{ ref('stg_retrieval_traces') }}
),

eval_runs as (
    select * from {{ ref('stg_eval_runs') }}
),

queries as (
    select * from {{ ref('stg_queries') }}
),

judged_queries as (
    select distinct qrels.query_id
    from {{ ref('stg_qrels') }} as qrels
    inner join {{ ref('label_classes') }} as classes using (label_class)
    where classes.completeness = 'complete' and {{ is_before_as_of('qrels.labelled_at') }}
),

landed as (
    select
        traces.* exclude (
            delivered_at, ingested_at, reject_reason, rejected_text, file_id, load_id, changed_in_load, lost_deliveries
        ),
        case
            when traces.eval_run_id is null then 'production'
            -- a run nobody declared moves no dashboard
            else coalesce(eval_runs.kind, 'adhoc') || '_eval'
        end as traffic,
        retrieved is null as is_fault,
        false as is_missing
    from traces
    left join eval_runs using (eval_run_id)
),

answered as (
    select * from {{ ref('int_answered_runs') }}
),

unanswered as (
    -- a judged query that an evaluation run never answered scores 0: it never leaves the mean
    select
        sha256(row(eval_runs.eval_run_id, queries.query_id)::varchar) as trace_id,
        eval_runs.*,
        queries.query_id,
        queries.query,
        coalesce(answered.has_candidates, false) as has_candidates
    from eval_runs
    inner join queries on eval_runs.query_set = queries.query_set
    inner join judged_queries on queries.query_id = judged_queries.query_id
    left join answered on eval_runs.eval_run_id = answered.eval_run_id
    -- of a frozen day's run the answers are gone
    where {{ is_kept('eval_runs.started_at::date') }}
        and coalesce(queries.added_at <= eval_runs.started_at, true)
        and not coalesce(list_contains(answered.query_ids, queries.query_id), false)
),

placeholders as (
    select
        trace_id,
        trace_id as session_id,
        query_id,
        eval_run_id,
        started_at as traced_at,
        started_at::date as traced_on,
        query,
        []::struct(rank integer, chunk_id varchar, score double)[] as retrieved,
        case when has_candidates then []::struct(rank integer, chunk_id varchar, score double)[] end as candidates,
        0 as n_duplicates,
        0 as n_non_finite_scores,
        index_version,
        embedding_model,
        chunker_version,
        reranker_version,
        prompt_version,
        1.0 as sample_rate,
        kind || '_eval' as traffic,
        false as is_fault,
        true as is_missing
    from unanswered
)

select * from landed
union all by name
select * from placeholders
