-- The series of mart_segment_weekly is window `week` of mart_retrieval_quality, row by row.
with windows as (
    select
        window_start_at::date as week_start_on, traffic, segment_dimension, segment_value, stage, label_class,
        metric, k, estimate, bound_low, bound_high, n_units
    from {{ ref('mart_retrieval_quality') }}
    where window_name = 'week'
),

weeks as (
    select
        week_start_on, traffic, segment_dimension, segment_value, stage, label_class,
        metric, k, estimate, bound_low, bound_high, n_units
    from {{ ref('mart_segment_weekly') }}
),

only_in_windows as (
    select * from windows
    except all
    select * from weeks
),

only_in_weeks as (
    select * from weeks
    except all
    select * from windows
)

select 'mart_retrieval_quality' as only_in, * from only_in_windows
union all
select 'mart_segment_weekly' as only_in, * from only_in_weeks
