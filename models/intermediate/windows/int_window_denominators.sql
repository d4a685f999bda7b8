with windows as (
    select * from {{ ref('int_windows') }}
),

buckets as (
    -- hours serve the rolling window only, and are never summed with days
    select * exclude (day_version), traced_on::timestamp as bucket_at, 'day' as time_grain
    from {{ ref('int_score_denominators') }}
    union all by name
    select *, 'hour' as time_grain
    from {{ ref('int_score_denominators_hourly') }}
),

summed as (
    select
        windows.window_name,
        windows.window_start_at,
        windows.window_end_at,
        buckets.traffic,
        buckets.segment_dimension,
        buckets.segment_value,
        buckets.stage,
        buckets.label_class,
        buckets.completeness,
        buckets.metric,
        buckets.k,
        sum(buckets.n_traces)::bigint as n_traces,
        sum(buckets.n_scored)::bigint as n_scored,
        sum(buckets.n_unlabelled)::bigint as n_unlabelled,
        sum(buckets.n_no_relevant)::bigint as n_no_relevant,
        sum(buckets.n_undefined)::bigint as n_undefined,
        sum(buckets.n_stage_absent)::bigint as n_stage_absent,
        sum(buckets.n_fault)::bigint as n_fault,
        sum(buckets.n_no_results)::bigint as n_no_results,
        sum(buckets.n_duplicates)::bigint as n_duplicates,
        sum(buckets.n_missing)::bigint as n_missing,
        sum(buckets.n_units)::bigint as n_units,
        sum(buckets.weight_sum)::double as weight_sum,
        sum(buckets.weight_square_sum)::double as weight_square_sum,
        sum(buckets.judged_sum)::double / nullif(sum(buckets.n_judged_defined) * 1e12, 0) as judged_share
    from windows
    inner join buckets
        on buckets.bucket_at >= windows.window_start_at
        and buckets.bucket_at < windows.window_end_at
        and (buckets.time_grain = 'hour') = (windows.window_name = 'rolling_24h')
    group by all
),

labelled as (
    -- a class nobody labels with is not reported; one whose labels stopped coming still is
    select distinct traffic, label_class, stage
    from summed
    where n_scored + n_no_relevant + n_undefined > 0
)

select
    summed.* exclude (weight_sum, weight_square_sum),
    summed.weight_sum * summed.weight_sum / nullif(summed.weight_square_sum, 0) as n_eff,
    {{ is_identifiable('summed.completeness', 'metrics.needs', 'summed.judged_share') }} as is_identifiable
from summed
semi join labelled using (traffic, label_class, stage)
inner join {{ ref('dim_metrics') }} as metrics using (metric)
