select
    windows.window_name,
    windows.window_start_at,
    windows.window_end_at,
    units.traffic,
    units.segment_dimension,
    units.segment_value,
    units.stage,
    units.intent,
    units.n_listed,
    sum(units.n_units)::bigint as n_units,
    sum(units.weight_sum)::bigint as weight_sum,
    sum(units.weight_square_sum)::hugeint as weight_square_sum,
    sum(units.trace_weight)::bigint as trace_weight
from {{ ref('int_windows') }} as windows
inner join {{ ref('int_listed_units') }} as units
    on units.traced_on >= windows.window_start_at and units.traced_on < windows.window_end_at
where windows.window_name <> 'rolling_24h'
group by all
