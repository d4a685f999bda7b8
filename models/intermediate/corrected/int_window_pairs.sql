with joint as (
    select * from {{ ref('int_window_joint') }}
),

denominators as (
    select * from {{ ref('int_window_denominators') }}
),

labelled as (
    select
        window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, stage,
        trusted_class, cheap_class, metric, k,
        sum(n_units)::bigint as n_labelled
    from joint
    group by all
),

listed as (
    select
        window_name, window_start_at, traffic, segment_dimension, segment_value, stage,
        sum(n_units)::bigint as n_units,
        pow(sum(weight_sum)::double, 2) / sum(weight_square_sum)::double as n_eff
    from {{ ref('int_window_listed') }}
    group by all
),

scored as (
    -- whom the cheap score is there for: all sessions with a list, or those with a cheap label
    select
        labelled.*, pairs.sampling, pairs.is_zero_without_signal,
        case when pairs.is_zero_without_signal then listed.n_units else cheap.n_units end as n_units,
        case when pairs.is_zero_without_signal then listed.n_eff else cheap.n_eff end as n_eff
    from labelled
    inner join {{ ref('int_corrections') }} as pairs using (trusted_class, cheap_class)
    left join listed using (window_name, window_start_at, traffic, segment_dimension, segment_value, stage)
    left join denominators as cheap
        on labelled.window_name = cheap.window_name and labelled.window_start_at = cheap.window_start_at
        and labelled.traffic = cheap.traffic and labelled.segment_dimension = cheap.segment_dimension
        and labelled.segment_value = cheap.segment_value and labelled.stage = cheap.stage
        and labelled.cheap_class = cheap.label_class and labelled.metric = cheap.metric and labelled.k = cheap.k
)

select
    scored.* exclude (n_units, n_eff),
    scored.n_units,
    -- of the units that are not labelled; equal to their number where sample rates do not vary
    scored.n_eff * (scored.n_units - scored.n_labelled) / scored.n_units as n_eff,
    trusted.n_traces,
    trusted.n_scored,
    trusted.judged_share,
    trusted.is_identifiable
from scored
inner join denominators as trusted
    on scored.window_name = trusted.window_name and scored.window_start_at = trusted.window_start_at
    and scored.traffic = trusted.traffic and scored.segment_dimension = trusted.segment_dimension
    and scored.segment_value = trusted.segment_value and scored.stage = trusted.stage
    and scored.trusted_class = trusted.label_class and scored.metric = trusted.metric and scored.k = trusted.k
