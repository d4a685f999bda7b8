select
    windows.window_name,
    windows.window_start_at,
    windows.window_end_at,
    places.traffic,
    places.segment_dimension,
    places.segment_value,
    places.k,
    places.intent,
    places.rank,
    places.value,
    sum(places.weight)::bigint as weight,
    sum(places.weight_square_sum)::hugeint as weight_square_sum
from {{ ref('int_windows') }} as windows
inner join {{ ref('int_judged_places') }} as places
    on places.traced_on >= windows.window_start_at and places.traced_on < windows.window_end_at
where windows.window_name <> 'rolling_24h'
group by all
