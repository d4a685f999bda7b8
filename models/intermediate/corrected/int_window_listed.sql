select
    days.window_name,
    days.window_start_at,
    days.window_end_at,
    days.traffic,
    days.trusted_class,
    units.segment_dimension,
    units.segment_value,
    units.stage,
    sum(units.n_units)::bigint as n_units,
    sum(units.weight_sum)::bigint as weight_sum,
    sum(units.weight_square_sum)::hugeint as weight_square_sum
from {{ ref('int_window_trusted_days') }} as days
inner join {{ ref('int_listed_units') }} as units using (traced_on, traffic)
group by all
