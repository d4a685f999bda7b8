with targets as (
    select * from {{ ref('int_slo_targets') }}
),

as_of as (
    select * from {{ ref('int_as_of') }}
),

segment_values as (
    select distinct
        denominators.traffic, denominators.stage, denominators.label_class,
        denominators.segment_dimension, denominators.segment_value
    from {{ ref('int_score_denominators') }} as denominators
    cross join as_of
    where denominators.traced_on >= as_of.full_days_end_on - {{ var('reported_days') }}
),

nights as (
    select
        targets.*,
        segment_values.segment_value,
        as_of.full_days_end_on
        - case when targets.traffic = 'production' then {{ var('label_maturity_days') }} else 0 end
        - unnest(range(1, {{ var('reported_days') }} + 1))::integer as night_on
    from targets
    cross join as_of
    inner join segment_values using (traffic, stage, label_class, segment_dimension)
    where targets.wanted_value in ('*', segment_values.segment_value)
)

select
    *,
    -- the window that is judged, those that paging looks at, and what went before
    unnest([
        {'window_role': 'judged', 'starts_on': night_on - (n_days - 1), 'ends_on': night_on + 1},
        {'window_role': 'night', 'starts_on': night_on, 'ends_on': night_on + 1},
        {'window_role': 'week', 'starts_on': night_on - 6, 'ends_on': night_on + 1},
        {'window_role': 'baseline', 'starts_on': night_on - (n_days - 1) - 28, 'ends_on': night_on - (n_days - 1)}
    ], recursive := true)
from nights
