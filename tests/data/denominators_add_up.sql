-- Every trace is scored or in one denominator that says why not: in the days rebuilt last, by hour and in every
-- published window.
with denominators as (
    select 'day' as time_grain, * exclude (day_version), traced_on::timestamp as bucket_at
    from {{ ref('int_score_denominators') }}
    where day_version = (select max(day_version) from {{ ref('int_score_denominators') }})
    union all by name
    select 'hour' as time_grain, * from {{ ref('int_score_denominators_hourly') }}
    union all by name
    select window_name as time_grain, window_start_at as bucket_at, * exclude (window_name, window_start_at)
    from {{ ref('mart_retrieval_quality') }}
)

select *
from denominators
where n_traces <> n_scored + n_unlabelled + n_no_relevant + n_undefined + n_stage_absent + n_fault
    or least(n_scored, n_unlabelled, n_no_relevant, n_undefined, n_stage_absent, n_fault) < 0
    or n_units > n_scored
    or (n_units = 0) <> (n_scored = 0)
