with windows as (
    select * from {{ ref('int_windows') }}
),

buckets as (
    -- hours serve the rolling window only, and are never summed with days
    select * exclude (day_version), traced_on::timestamp as bucket_at, 'day' as time_grain
    from {{ ref('int_score_histograms') }}
    union all by name
    select *, 'hour' as time_grain
    from {{ ref('int_score_histograms_hourly') }}
)

select
    windows.window_name,
    windows.window_start_at,
    windows.window_end_at,
    buckets.traffic,
    buckets.segment_dimension,
    buckets.segment_value,
    buckets.stage,
    buckets.label_class,
    buckets.metric,
    buckets.k,
    buckets.value,
    sum(buckets.weight)::bigint as weight
from windows
inner join buckets
    on buckets.bucket_at >= windows.window_start_at
    and buckets.bucket_at < windows.window_end_at
    and (buckets.time_grain = 'hour') = (windows.window_name = 'rolling_24h')
group by all
