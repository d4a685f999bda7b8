with judged as (
    select
        window_name, window_start_at, traffic, segment_dimension, segment_value, k,
        pow(sum(weight)::double, 2) / sum(weight_square_sum)::double as n_eff
    from {{ ref('int_window_places') }}
    group by all
),

shown as (
    select
        window_name, window_start_at, traffic, segment_dimension, segment_value, k,
        sum(weight)::double as weight
    from {{ ref('int_window_shown_places') }}
    group by all
),

lists as (
    select
        window_name, window_start_at, traffic, segment_dimension, segment_value,
        sum(n_traces)::bigint as n_traces,
        sum(weight)::double as weight
    from {{ ref('int_window_shown_lists') }}
    group by all
)

select
    denominators.window_name, denominators.window_start_at, denominators.window_end_at, denominators.traffic,
    denominators.segment_dimension, denominators.segment_value, denominators.k,
    -- lists, not sessions: a place weighs by its list
    denominators.n_scored as n_labelled,
    lists.n_traces as n_units,
    judged.n_eff,
    -- lists may be shorter than k: a place that was not there holds nothing relevant
    shown.weight / (lists.weight * denominators.k) as shown_share,
    denominators.n_traces,
    denominators.n_scored,
    denominators.judged_share
from {{ ref('int_window_denominators') }} as denominators
inner join judged using (window_name, window_start_at, traffic, segment_dimension, segment_value, k)
inner join shown using (window_name, window_start_at, traffic, segment_dimension, segment_value, k)
inner join lists using (window_name, window_start_at, traffic, segment_dimension, segment_value)
where denominators.label_class = 'explicit' and denominators.stage = 'final' and denominators.metric = 'precision'
