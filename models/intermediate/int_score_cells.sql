with units as (
    select *, score_sum / (n_scored * 1e12) as score
    from {{ ref('int_score_units') }}
    where n_scored > 0
),

placed as (
    -- many-valued metrics are split between their two neighbours on the grid, which keeps the mean
    select *, floor(score / grid + 1e-9)::integer as grid_place
    from units
),

split as (
    select
        *,
        case
            when grid is null then [{'value': score, 'weight': weight}]
            else [
                    {'value': grid_place * grid, 'weight': weight - upper_weight},
                    {'value': (grid_place + 1) * grid, 'weight': upper_weight}
                ]
        end as cells
    from (
        select *, greatest(round(weight * (score / grid - grid_place)), 0)::bigint as upper_weight
        from placed
    )
),

cells as (
    select * exclude (cells), unnest(cells, recursive := true)
    from (select * exclude (weight) from split)
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
    round(value, 12) as value,
    sum(weight)::bigint as weight
from cells
where weight > 0
group by
    time_grain, traced_on, bucket_at, traffic, segment_dimension, segment_value, stage, label_class, metric, k,
    round(value, 12)
