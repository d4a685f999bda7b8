with traces as (
    select * from {{ ref('stg_retrieval_traces') }}
),

attachments as (
    select * from {{ ref('int_feedback_traces') }}
),

queries as (
    select * from {{ ref('stg_queries') }}
),

qrels as (
    select * from {{ ref('stg_qrels') }}
),

eval_runs as (
    select * from {{ ref('stg_eval_runs') }}
),

query_days as (
    -- the days that asked a query, or whose evaluation run should have
    select query_id, traced_on from traces
    where query_id is not null
    union
    select queries.query_id, eval_runs.started_at::date as traced_on
    from queries
    inner join eval_runs using (query_set)
),

touched as (
    -- the old and the new day of every changed trace, and the day of its evaluation run
    select 'retrieval_traces' as contract, changed_in_load as load_id, traced_on
    from traces
    union all
    select 'retrieval_traces' as contract, lost.load_id, lost.was_on as traced_on
    from (select unnest(lost_deliveries) as lost from traces)
    where lost.outcome = 'superseded'
    union all
    select 'retrieval_traces' as contract, traces.changed_in_load as load_id, eval_runs.started_at::date as traced_on
    from traces
    inner join eval_runs using (eval_run_id)
    union all
    -- the old and the new day of every label that found another trace, or changed
    select
        'feedback' as contract, changed_in_load as load_id, unnest(list_append(previous_days, traced_on)) as traced_on
    from attachments
    union all
    select 'queries' as contract, queries.changed_in_load as load_id, query_days.traced_on
    from queries
    inner join query_days using (query_id)
    union all
    select 'qrels' as contract, qrels.changed_in_load as load_id, query_days.traced_on
    from qrels
    inner join query_days using (query_id)
    union all
    select 'eval_runs' as contract, changed_in_load as load_id, started_at::date as traced_on
    from eval_runs
    union all
    select 'eval_runs' as contract, lost.load_id, lost.was_on as traced_on
    from (select unnest(lost_deliveries) as lost from eval_runs)
    union all
    select 'eval_runs' as contract, eval_runs.changed_in_load as load_id, traces.traced_on
    from eval_runs
    inner join traces using (eval_run_id)
),

so_far as (
    {{ rows_so_far({'contract': 'varchar', 'load_id': 'integer', 'day_version': 'integer'}) }}
),

watermarks as (
    select contract, max(load_id) as load_id
    from so_far
    group by contract
)

select distinct
    touched.contract,
    touched.load_id,
    touched.traced_on,
    (select coalesce(max(day_version), 0) from so_far) + 1 as day_version
from touched
left join watermarks using (contract)
where touched.traced_on is not null
    and touched.load_id > coalesce(watermarks.load_id, 0)
