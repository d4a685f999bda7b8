-- Units with and without a trusted label are all units, and an estimate has its interval, or a reason.
with others as (
    select
        window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class, cheap_class,
        metric, k,
        sum(weight) as weight
    from {{ ref('int_window_unlabelled') }}
    group by all
)

select corrected.*, others.weight as others_weight
from {{ ref('mart_corrected_estimates') }} as corrected
left join others
    using (
        window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class, cheap_class,
        metric, k
    )
where (corrected.estimate is null) = (corrected.reason is null)
    or (corrected.estimate is not null and not coalesce(
        corrected.estimate between corrected.ci_low and corrected.ci_high
        and 0 <= corrected.ci_low and corrected.ci_high <= 1
        and corrected.std_error >= 0,
        false
    ))
    or corrected.n_units < corrected.n_labelled
    -- a unit weighs one, or more where it was logged at a lower rate
    or (
        corrected.method = 'prediction_powered'
        and coalesce(others.weight, 0) < (corrected.n_units - corrected.n_labelled) * 1000000
    )
