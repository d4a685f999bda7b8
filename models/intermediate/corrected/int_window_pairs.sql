with joint as (
    select * from {{ ref('int_window_joint') }}
),

labelled as (
    select
        window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, stage,
        trusted_class, cheap_class, metric, k,
        sum(n_units)::bigint as n_labelled
    from joint
    group by all
),

classes as (
    select *, unnest([trusted_class, cheap_class]) as label_class
    from {{ ref('int_corrections') }}
),

audited as (
    -- the days with a trusted label: who was there, and for whom there is a cheap score
    select
        days.window_name, days.window_start_at, days.traffic, counts.segment_dimension, counts.segment_value,
        counts.stage, days.trusted_class, classes.cheap_class, counts.metric, counts.k,
        count(*) filter (where counts.label_class = days.trusted_class) as n_days,
        sum(counts.n_traces) filter (where counts.label_class = days.trusted_class)::bigint as n_traces,
        sum(counts.n_units) filter (where counts.label_class = classes.cheap_class)::bigint as n_units,
        sum(counts.weight_sum) filter (where counts.label_class = classes.cheap_class) as weight_sum,
        sum(counts.weight_square_sum) filter (where counts.label_class = classes.cheap_class) as weight_square_sum
    from {{ ref('int_window_trusted_days') }} as days
    inner join classes using (trusted_class)
    inner join {{ ref('int_score_denominators') }} as counts
        on days.traced_on = counts.traced_on and days.traffic = counts.traffic
        and classes.label_class = counts.label_class
    group by all
),

scored as (
    -- whom the cheap score is there for: all sessions with a list, or those with a cheap label
    select
        labelled.*, pairs.sampling, pairs.is_zero_without_signal, audited.n_days, audited.n_traces,
        case when pairs.is_zero_without_signal then listed.n_units else audited.n_units end as n_units,
        case when pairs.is_zero_without_signal then listed.weight_sum else audited.weight_sum end as weight_sum,
        case when pairs.is_zero_without_signal then listed.weight_square_sum else audited.weight_square_sum end
            as weight_square_sum
    from labelled
    inner join {{ ref('int_corrections') }} as pairs using (trusted_class, cheap_class)
    inner join audited
        using (
            window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class, cheap_class,
            metric, k
        )
    left join {{ ref('int_window_listed') }} as listed
        using (window_name, window_start_at, traffic, segment_dimension, segment_value, stage, trusted_class)
),

counted as (
    select
        * exclude (weight_sum, weight_square_sum),
        -- of the units that are not labelled; equal to their number where sample rates do not vary
        pow(weight_sum::double, 2) / weight_square_sum::double * (n_units - n_labelled) / n_units as n_eff
    from scored
)

select
    counted.*,
    trusted.n_scored,
    trusted.judged_share,
    trusted.is_identifiable
from counted
inner join {{ ref('int_window_denominators') }} as trusted
    on counted.window_name = trusted.window_name and counted.window_start_at = trusted.window_start_at
    and counted.traffic = trusted.traffic and counted.segment_dimension = trusted.segment_dimension
    and counted.segment_value = trusted.segment_value and counted.stage = trusted.stage
    and counted.trusted_class = trusted.label_class and counted.metric = trusted.metric and counted.k = trusted.k
