with signalling as (
    -- an experiment without signals tells nothing: its traces are not looked at
    select distinct retrievals.experiment_id
    from {{ ref('int_implicit_hits') }} as hits
    inner join {{ ref('fct_retrievals') }} as retrievals
        on hits.traced_on = retrievals.traced_on and hits.trace_id = retrievals.trace_id
    where not hits.is_answer_level
),

asked as (
    select
        retrievals.traced_on, retrievals.trace_id, retrievals.experiment_id, retrievals.experiment_bucket,
        coalesce('id ' || retrievals.query_id, {{ normalised_query('retrievals.query') }}) as question
    from {{ ref('fct_retrievals') }} as retrievals
    inner join {{ ref('int_windows') }} as windows
        on retrievals.traced_on >= windows.window_start_at and retrievals.traced_on < windows.window_end_at
    semi join signalling on retrievals.experiment_id = signalling.experiment_id
    where windows.window_name = 'trailing_28d' and retrievals.traffic = 'production'
        and retrievals.experiment_id is not null and retrievals.experiment_bucket is not null
),

signals as (
    select asked.*, hits.evidence_id
    from {{ ref('int_implicit_hits') }} as hits
    inner join asked on hits.traced_on = asked.traced_on and hits.trace_id = asked.trace_id
    where not hits.is_answer_level
),

signalled as (
    -- what nobody signalled adds nothing at any rank
    select distinct experiment_id, question, evidence_id
    from signals
),

shown as (
    select
        signalled.*, asked.experiment_bucket, asked.traced_on, asked.trace_id,
        list_position({{ chunk_ids('traces.retrieved') }}, signalled.evidence_id) as rank
    from signalled
    inner join asked on signalled.experiment_id = asked.experiment_id and signalled.question = asked.question
    inner join {{ ref('stg_retrieval_traces') }} as traces
        on asked.traced_on = traces.traced_on and asked.trace_id = traces.trace_id
),

cells as (
    select
        shown.experiment_id, shown.question, shown.evidence_id, shown.experiment_bucket, shown.rank,
        count(*) as n_shown,
        count(signals.trace_id) as n_signals
    from shown
    left join signals using (traced_on, trace_id, evidence_id)
    where shown.rank is not null
    group by shown.experiment_id, shown.question, shown.evidence_id, shown.experiment_bucket, shown.rank
),

pairs as (
    -- the same chunk for the same question, one rank apart in two buckets
    select
        lower_cells.rank,
        upper_cells.n_shown as upper_shown, upper_cells.n_signals as upper_signals,
        lower_cells.n_shown as lower_shown, lower_cells.n_signals as lower_signals,
        upper_shown + lower_shown as n_shown, upper_signals + lower_signals as n_signals
    from cells as upper_cells
    inner join cells as lower_cells using (experiment_id, question, evidence_id)
    where upper_cells.experiment_bucket <> lower_cells.experiment_bucket and upper_cells.rank = lower_cells.rank - 1
)

select
    rank,
    sum(n_signals)::bigint as n_signals,
    sum(1000000 * upper_signals * lower_shown // n_shown)::bigint as upper_sum,
    sum(1000000 * lower_signals * upper_shown // n_shown)::bigint as lower_sum,
    sum(
        1000000 * (n_signals * upper_shown * lower_shown - upper_signals * lower_signals * n_shown)
        // (n_shown * n_shown)
    )::bigint as variance_sum
from pairs
group by rank
