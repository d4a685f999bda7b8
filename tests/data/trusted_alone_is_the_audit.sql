-- Without correction and weights the corrected mart says what mart_retrieval_quality says of the trusted class:
-- where all sessions have a cheap score, and all trusted units weigh the same.
with equal as (
    select
        window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class, cheap_class,
        metric, k
    from {{ ref('int_window_joint') }}
    group by all
    having count(distinct inclusion_probability) = 1 and count(distinct unit_weight) = 1
)

select corrected.*, quality.estimate as audit_estimate
from {{ ref('mart_corrected_estimates') }} as corrected
inner join equal
    using (
        window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class, cheap_class,
        metric, k
    )
inner join {{ ref('corrections') }} as pairs using (trusted_class, cheap_class)
inner join {{ ref('mart_retrieval_quality') }} as quality
    on corrected.window_name = quality.window_name and corrected.window_start_at = quality.window_start_at
    and corrected.traffic = quality.traffic and corrected.segment_dimension = quality.segment_dimension
    and corrected.segment_value = quality.segment_value and corrected.stage = quality.stage
    and corrected.trusted_class = quality.label_class and corrected.metric = quality.metric and corrected.k = quality.k
where corrected.method = 'prediction_powered'
    and pairs.is_zero_without_signal
    and corrected.reason is null
    and (
        corrected.n_labelled <> quality.n_units
        or not coalesce(abs(corrected.uncorrected_estimate - quality.estimate) < 1e-6, false)
    )
