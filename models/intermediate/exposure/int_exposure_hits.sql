with patterns as (
    select
        windows.window_name, windows.window_start_at, windows.window_end_at, patterns.*,
        unnest(patterns.placed_ranks) as rank
    from {{ ref('int_hit_patterns') }} as patterns
    inner join {{ ref('int_windows') }} as windows
        on patterns.traced_on >= windows.window_start_at and patterns.traced_on < windows.window_end_at
    where windows.window_name = 'trailing_28d'
)

select
    window_name, window_start_at, window_end_at, segment_dimension, segment_value, rank,
    -- a unit's hits at a rank are the mean over its traces
    sum(round(weight / n_traces)::bigint)::bigint as hit_sum
from patterns
group by window_name, window_start_at, window_end_at, segment_dimension, segment_value, rank
