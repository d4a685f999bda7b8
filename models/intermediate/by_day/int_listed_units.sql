with cells as (
    select
        traced_on, traffic, segment_key, segment_dimension, segment_value, stage, intent,
        -- how long it is matters for what was shown to users
        case when stage = 'final' then n_listed end as n_listed,
        count(*) filter (where is_first_of_unit) as n_units,
        sum(unit_weight) filter (where is_first_of_unit)::bigint as weight_sum,
        sum(unit_weight::hugeint * unit_weight) filter (where is_first_of_unit)::hugeint as weight_square_sum,
        sum(trace_weight)::bigint as trace_weight
    from {{ ref('int_listed_traces') }}
    where {{ is_affected('traced_on') }}
    group by all
),

spread as (
    select * exclude (segment_key)
    from cells
    where segment_key is null
    union all by name
    select
        cells.* exclude (segment_key, segment_dimension, segment_value),
        segments.segment_dimension, segments.segment_value
    from cells
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
)

select
    traced_on, traffic, segment_dimension, segment_value, stage, intent, n_listed,
    sum(n_units)::bigint as n_units,
    coalesce(sum(weight_sum), 0)::bigint as weight_sum,
    coalesce(sum(weight_square_sum), 0)::hugeint as weight_square_sum,
    sum(trace_weight)::bigint as trace_weight,
    {{ current_day_version() }} as day_version
from spread
group by traced_on, traffic, segment_dimension, segment_value, stage, intent, n_listed
