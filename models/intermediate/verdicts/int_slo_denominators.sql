select
    nights.slo_id,
    nights.segment_value,
    nights.night_on,
    nights.window_role,
    any_value(nights.objective - nights.margin) as breach_below,
    coalesce(sum(denominators.n_units), 0)::bigint as n_units,
    coalesce(sum(denominators.n_traces), 0)::bigint as n_traces,
    coalesce(sum(denominators.n_scored), 0)::bigint as n_scored,
    sum(denominators.weight_sum)::double * sum(denominators.weight_sum)::double
    / nullif(sum(denominators.weight_square_sum)::double, 0) as n_eff,
    sum(denominators.judged_sum)::double / nullif(sum(denominators.n_judged_defined) * 1e12, 0) as judged_share,
    {{ is_identifiable('any_value(nights.completeness)', 'any_value(nights.needs)', 'judged_share') }}
        as is_identifiable
from {{ ref('int_slo_nights') }} as nights
left join {{ ref('int_score_denominators') }} as denominators
    on nights.traffic = denominators.traffic
    and nights.segment_dimension = denominators.segment_dimension
    and nights.segment_value = denominators.segment_value
    and nights.stage = denominators.stage
    and nights.label_class = denominators.label_class
    and nights.metric = denominators.metric
    and nights.k = denominators.k
    and denominators.traced_on >= nights.starts_on
    and denominators.traced_on < nights.ends_on
group by nights.slo_id, nights.segment_value, nights.night_on, nights.window_role
