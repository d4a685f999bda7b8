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
    select *, started_at::date as started_on from {{ ref('stg_eval_runs') }}
),

query_days as (
    -- the days that asked a query, or whose evaluation run should have
    select query_id, traced_on
    from traces
    where query_id is not null
    union
    select queries.query_id, eval_runs.started_on as traced_on
    from queries
    inner join eval_runs using (query_set)
)

-- the old and the new day of every changed trace, and the day of its old and its new evaluation run
select 'retrieval_traces' as contract, changed_in_load as load_id, traced_on, null::timestamp as known_at
from traces
union all by name
select 'retrieval_traces' as contract, lost.load_id, lost.was_on as traced_on
from (select unnest(lost_deliveries) as lost from traces)
where lost.outcome = 'superseded'
union all by name
select 'retrieval_traces' as contract, traces.changed_in_load as load_id, eval_runs.started_on as traced_on
from traces
inner join eval_runs using (eval_run_id)
union all by name
select 'retrieval_traces' as contract, lost.load_id, eval_runs.started_on as traced_on
from (select unnest(lost_deliveries) as lost from traces)
inner join eval_runs on lost.was_in_run = eval_runs.eval_run_id
where lost.outcome = 'superseded'
union all by name
-- the old and the new day of every label that changed or found another trace
select
    'feedback' as contract,
    attachments.changed_in_load as load_id,
    unnest(list_append(attachments.previous_days, attachments.traced_on)) as traced_on,
    feedback.given_at as known_at
from attachments
inner join {{ ref('stg_feedback') }} as feedback using (feedback_id)
union all by name
select 'queries' as contract, queries.changed_in_load as load_id, query_days.traced_on
from queries
inner join query_days using (query_id)
union all by name
-- a query that left a set leaves the runs of that set
select 'queries' as contract, lost.load_id, eval_runs.started_on as traced_on
from (select unnest(lost_deliveries) as lost from queries)
inner join eval_runs on lost.was_in = eval_runs.query_set
where lost.outcome = 'superseded'
union all by name
select 'qrels' as contract, qrels.changed_in_load as load_id, query_days.traced_on, qrels.labelled_at as known_at
from qrels
inner join query_days using (query_id)
union all by name
select 'eval_runs' as contract, changed_in_load as load_id, started_on as traced_on
from eval_runs
union all by name
select 'eval_runs' as contract, lost.load_id, lost.was_on as traced_on
from (select unnest(lost_deliveries) as lost from eval_runs)
union all by name
select 'eval_runs' as contract, eval_runs.changed_in_load as load_id, traces.traced_on
from eval_runs
inner join traces using (eval_run_id)
