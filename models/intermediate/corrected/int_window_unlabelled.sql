with pairs as (
    select * from {{ ref('int_window_pairs') }}
),

scored as (
    select pairs.*, cheap.value, cheap.weight
    from pairs
    inner join {{ ref('int_window_cheap') }} as cheap
        using (
            window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class, cheap_class,
            metric, k
        )
),

labelled as (
    select
        * exclude (n_units, unit_weight, cheap_score),
        unit_weight * n_units as weight,
        coalesce(cheap_score, 0) as score,
        {{ on_grid('score', 'grid') }} as value,
        coalesce({{ weight_above('unit_weight', 'score', 'value', 'grid') }} * n_units, 0) as upper_weight
    from {{ ref('int_window_joint') }}
),

-- everybody's cheap score, less that of the labelled: nobody is scored again
terms as (
    select * from scored
    union all by name
    select pairs.*, 0.0 as value, listed.weight_sum as weight
    from pairs
    inner join {{ ref('int_window_listed') }} as listed
        using (window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class)
    where pairs.is_zero_without_signal
    union all by name
    select * replace (0.0 as value, -weight as weight) from scored
    where is_zero_without_signal
    union all by name
    select * exclude (weight, upper_weight), upper_weight - weight as weight from labelled
    union all by name
    select * exclude (weight, upper_weight) replace (round(value + grid, 12) as value), -upper_weight as weight
    from labelled
    where upper_weight > 0
)

select
    window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, stage,
    trusted_class, cheap_class, metric, k, value,
    sum(weight)::bigint as weight
from terms
group by
    window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, stage,
    trusted_class, cheap_class, metric, k, value
having sum(weight) <> 0
