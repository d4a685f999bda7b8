with nights as (
    select * from {{ ref('int_slo_nights') }}
    where window_role = 'judged'
),

estimates as (
    select * from {{ ref('int_slo_estimates') }}
),

windows as (
    select
        nights.slo_id, nights.segment_dimension, nights.segment_value, nights.night_on,
        nights.metric, nights.k, nights.stage, nights.label_class, nights.traffic,
        nights.window_name, nights.starts_on as window_starts_on,
        nights.objective, nights.margin, nights.objective - nights.margin as breach_below, nights.tolerance,
        nights.severity, nights.owner, nights.runbook,
        judged.* exclude (slo_id, segment_value, night_on, window_role),
        night.bound_high < breach_below as is_night_breached,
        week.bound_high < breach_below as is_week_breached,
        baseline.estimate as baseline_estimate,
        -- upper end of the difference to the baseline (MOVER)
        judged.estimate - baseline.estimate
        + sqrt(pow(judged.bound_high - judged.estimate, 2) + pow(baseline.estimate - baseline.bound_low, 2))
            as change_bound_high
    from nights
    inner join estimates as judged
        on nights.slo_id = judged.slo_id and nights.segment_value = judged.segment_value
        and nights.night_on = judged.night_on and judged.window_role = 'judged'
    inner join estimates as night
        on nights.slo_id = night.slo_id and nights.segment_value = night.segment_value
        and nights.night_on = night.night_on and night.window_role = 'night'
    inner join estimates as week
        on nights.slo_id = week.slo_id and nights.segment_value = week.segment_value
        and nights.night_on = week.night_on and week.window_role = 'week'
    inner join estimates as baseline
        on nights.slo_id = baseline.slo_id and nights.segment_value = baseline.segment_value
        and nights.night_on = baseline.night_on and baseline.window_role = 'baseline'
),

ranked as (
    -- a family: the values of one segment on one night
    select
        *,
        count(p_value) over (partition by slo_id, night_on) as n_family,
        row_number() over (partition by slo_id, night_on order by p_value, segment_value) as p_rank,
        lag(is_night_breached, 1, false) over (partition by slo_id, segment_value order by night_on)
            as was_breached_before,
        night_on = max(night_on) over (partition by slo_id) as is_newest
    from windows
),

adjusted as (
    select
        *,
        -- Benjamini and Hochberg 1995, as adjusted p-values
        min(p_value * n_family / p_rank) over (
            partition by slo_id, night_on order by p_rank desc rows between unbounded preceding and current row
        ) as lowest_p,
        {{ sessions_to_decide('estimate', 'objective', 'breach_below', 'std_error', 'n_eff') }} as sessions_to_decide
    from ranked
)

select
    adjusted.* exclude (
        breach_below, change_bound_high, is_night_breached, is_week_breached, n_family, p_rank, was_breached_before,
        lowest_p, sessions_to_decide
    ),
    case when p_value is not null then least(1, lowest_p) end as p_adjusted,
    case
        when not is_identifiable or n_units = 0 then 'insufficient_data'
        when bound_high < breach_below then 'breached'
        when bound_low >= objective then 'met'
        when (bound_high - bound_low) / 2 > tolerance then 'insufficient_data'
        else 'at_risk'
    end as state,
    -- the guides' rule: it measures sample size, and decides nothing here
    bound_low < objective as lower_bound_below_slo,
    case
        when sessions_to_decide is not null
            then ceil(greatest(0, round((sessions_to_decide - n_eff) * n_units / n_eff, 6)))
    end as n_units_needed,
    coalesce(change_bound_high < 0, false) as is_degraded,
    ecusum.ecusum,
    coalesce(ecusum.is_alarm, false) as is_ecusum_alarm,
    is_identifiable and (n_family = 1 or p_adjusted <= {{ var('false_discovery_rate') }}) and (
        (is_night_breached and was_breached_before) or (is_week_breached and coalesce(ecusum.is_alarm, false))
    ) as is_page
from adjusted
left join {{ ref('int_slo_ecusum') }} as ecusum using (slo_id, segment_value, night_on)
