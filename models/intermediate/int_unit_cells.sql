with units as (
    select
        *,
        -- many-valued metrics stand between two neighbours on their grid
        {{ on_grid('score', 'grid') }} as value
    from {{ ref('int_score_units') }}
),

split as (
    -- the share of a unit that goes to the upper neighbour keeps the mean
    select *, {{ weight_above('weight', 'score', 'value', 'grid') }} as upper_weight
    from units
)

select
    time_grain, traced_on, bucket_at, traffic, segment_key, segment_dimension, segment_value,
    stage, label_class, metric, k, grid, value,
    count(value) as n_units,
    sum(weight) filter (where value is not null)::bigint as weight,
    sum(upper_weight)::bigint as upper_weight,
    sum(weight::hugeint * weight) filter (where value is not null)::hugeint as weight_square_sum,
    sum(n_scored)::bigint as n_scored,
    sum(n_no_relevant)::bigint as n_no_relevant,
    sum(n_undefined)::bigint as n_undefined,
    sum(judged_sum)::hugeint as judged_sum,
    sum(n_judged_defined)::bigint as n_judged_defined
from split
group by
    time_grain, traced_on, bucket_at, traffic, segment_key, segment_dimension, segment_value,
    stage, label_class, metric, k, grid, value
