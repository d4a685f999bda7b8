with propensities as (
    select * from {{ ref('int_examination_propensities') }}
),

weights as (
    -- by rank, up to the first whose propensity is not known
    select list(weight order by rank) as by_rank, max(rank) as n_ranks, count(weight) as n_known
    from propensities
),

patterns as (
    select windows.window_name, windows.window_start_at, windows.window_end_at, patterns.*
    from {{ ref('int_hit_patterns') }} as patterns
    inner join {{ ref('int_windows') }} as windows
        on patterns.traced_on >= windows.window_start_at and patterns.traced_on < windows.window_end_at
    where windows.window_name = 'trailing_28d'
),

cutoffs as (
    -- rank 1 is what the others are measured against
    select unnest(list_filter(reported_k, lambda k: k > 1)) as k
    from {{ ref('dim_metrics') }}
    where metric = 'precision'
),

corrected as (
    select
        patterns.*,
        cutoffs.k,
        list_sum(list_transform(
            list_filter(patterns.placed_ranks, lambda rank: rank <= cutoffs.k), lambda rank: weights.by_rank[rank]
        )) as placed_sum,
        -- a signal on the whole answer has no rank to be corrected for
        1000000 * len(list_filter(patterns.answer_ranks, lambda rank: rank <= cutoffs.k)) as answer_sum
    from patterns
    cross join cutoffs
    cross join weights
    where least(cutoffs.k, weights.n_ranks) <= weights.n_known
)

select
    window_name, window_start_at, window_end_at, segment_dimension, segment_value, k,
    (coalesce(placed_sum, 0) + answer_sum) / (n_traces * k * 1e6) as value,
    sum(n_units)::bigint as n_units,
    sum(weight)::bigint as weight
from corrected
group by all
