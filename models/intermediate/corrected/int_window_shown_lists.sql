select
    windows.window_name,
    windows.window_start_at,
    windows.window_end_at,
    lists.traffic,
    lists.segment_dimension,
    lists.segment_value,
    lists.intent,
    lists.n_returned,
    sum(lists.n_traces)::bigint as n_traces,
    sum(lists.weight)::bigint as weight
from {{ ref('int_windows') }} as windows
inner join {{ ref('int_shown_lists') }} as lists
    on lists.traced_on >= windows.window_start_at and lists.traced_on < windows.window_end_at
where windows.window_name <> 'rolling_24h'
group by all
