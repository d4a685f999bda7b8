with hits as (
    select hits.*
    from {{ ref('int_implicit_hits') }} as hits
    inner join {{ ref('int_windows') }} as windows
        on hits.traced_on >= windows.window_start_at and hits.traced_on < windows.window_end_at
    where windows.window_name = 'trailing_28d' and not hits.is_answer_level
),

depths as (
    select traced_on, trace_id, max(rank) as depth
    from hits
    group by traced_on, trace_id
),

lists as (
    select depths.depth, scores.n_returned
    from depths
    inner join {{ ref('fct_query_scores') }} as scores
        on depths.traced_on = scores.traced_on and depths.trace_id = scores.trace_id
    inner join {{ ref('fct_retrievals') }} as retrievals
        on depths.traced_on = retrievals.traced_on and depths.trace_id = retrievals.trace_id
    where scores.stage = 'final' and scores.label_class = 'implicit' and scores.k = 0
        and retrievals.traffic = 'production'
),

deepest as (
    -- no further than precision is reported
    select least(max(lists.n_returned), max(list_max(metrics.reported_k))) as rank
    from lists
    cross join {{ ref('dim_metrics') }} as metrics
    where metrics.metric = 'precision'
),

ranks as (
    select unnest(range(2, deepest.rank + 1))::integer as rank
    from deepest
),

counted as (
    select
        ranks.rank,
        count(*) filter (where lists.depth >= ranks.rank - 1) as n_looked_above,
        count(*) filter (where lists.depth >= ranks.rank) as n_looked_here
    from ranks
    inner join lists on ranks.rank <= lists.n_returned
    group by ranks.rank
)

select
    rank,
    n_looked_above as n_signals,
    1000000 * n_looked_above as upper_sum,
    1000000 * n_looked_here as lower_sum,
    -- of the logarithm of their ratio, times both sums (Greenwood)
    1000000 * (n_looked_above - n_looked_here) as variance_sum
from counted
