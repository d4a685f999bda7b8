with cells as (
    select * from {{ ref('int_segment_cells') }}
    where value is not null
),

neighbours as (
    select * exclude (weight, upper_weight), weight - coalesce(upper_weight, 0) as weight
    from cells
    union all by name
    select * exclude (weight, upper_weight) replace (round(value + grid, 12) as value), upper_weight as weight
    from cells
)

select
    time_grain,
    traced_on,
    bucket_at,
    traffic,
    segment_dimension,
    segment_value,
    stage,
    label_class,
    metric,
    k,
    value,
    sum(weight)::bigint as weight
from neighbours
where weight > 0
group by
    time_grain, traced_on, bucket_at, traffic, segment_dimension, segment_value, stage, label_class, metric, k, value
