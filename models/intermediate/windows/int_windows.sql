with as_of as (
    select * from {{ ref('int_as_of') }}
),

days as (
    select
        'day' as window_name,
        (full_days_end_on - unnest(range(1, {{ var('reported_days') }} + 1))::integer)::timestamp as window_start_at,
        window_start_at + interval 1 day as window_end_at
    from as_of
),

weeks as (
    -- ISO weeks, Monday to Sunday, the last one full
    select
        'week' as window_name,
        date_trunc('week', full_days_end_on) - to_weeks(unnest(range(1, {{ var('reported_weeks') }} + 1))::integer)
            as window_start_at,
        window_start_at + interval 7 days as window_end_at
    from as_of
),

last_28_days as (
    select
        'trailing_28d' as window_name,
        full_days_end_on::timestamp - interval 28 days as window_start_at,
        full_days_end_on::timestamp as window_end_at
    from as_of
),

last_24_hours as (
    select
        'rolling_24h' as window_name,
        full_hours_end_at - interval 24 hours as window_start_at,
        full_hours_end_at as window_end_at
    from as_of
)

select * from last_24_hours
union all
select * from days
union all
select * from weeks
union all
select * from last_28_days
