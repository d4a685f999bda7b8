with summed as (
    select
        segments.experiment_id,
        segments.segment_dimension,
        segments.segment_value,
        denominators.stage,
        denominators.label_class,
        denominators.metric,
        denominators.k,
        segments.arm,
        any_value(denominators.completeness) as completeness,
        sum(denominators.n_units)::bigint as n_units,
        sum(denominators.n_traces)::bigint as n_traces,
        sum(denominators.n_scored)::bigint as n_scored,
        sum(denominators.n_duplicates)::bigint as n_duplicates,
        sum(denominators.weight_sum)::double * sum(denominators.weight_sum)::double
        / nullif(sum(denominators.weight_square_sum)::double, 0) as n_eff,
        sum(denominators.judged_sum)::double / nullif(sum(denominators.n_judged_defined) * 1e12, 0) as judged_share
    from {{ ref('int_experiment_segments') }} as segments
    inner join {{ ref('int_score_denominators') }} as denominators
        on segments.stored_dimension = denominators.segment_dimension
        and segments.stored_value = denominators.segment_value
        and denominators.traced_on >= segments.starts_on
        and denominators.traced_on < segments.ends_on
    where denominators.traffic = 'production'
    group by
        segments.experiment_id, segments.segment_dimension, segments.segment_value, denominators.stage,
        denominators.label_class, denominators.metric, denominators.k, segments.arm
)

select
    summed.* exclude (completeness),
    n_scored / nullif(n_traces, 0) as scored_share,
    n_duplicates / nullif(n_traces, 0) as duplicates_per_trace,
    {{ is_identifiable('summed.completeness', 'metrics.needs', 'summed.judged_share') }} as is_identifiable
from summed
inner join {{ ref('dim_metrics') }} as metrics using (metric)
where n_scored > 0
