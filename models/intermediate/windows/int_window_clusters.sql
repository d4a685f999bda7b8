with clusters as (
    select
        windows.window_name,
        windows.window_start_at,
        windows.window_end_at,
        days.traffic,
        days.segment_dimension,
        days.segment_value,
        days.stage,
        days.label_class,
        days.metric,
        days.k,
        sum(days.score_sum)::bigint as score_sum,
        sum(days.unit_sum)::bigint as unit_sum
    from {{ ref('int_windows') }} as windows
    inner join {{ ref('int_cluster_days') }} as days
        on days.traced_on >= windows.window_start_at
        and days.traced_on < windows.window_end_at
        and windows.window_end_at >= windows.window_start_at + to_days(days.min_window_days)
    -- hours are not known by cluster
    where windows.window_name <> 'rolling_24h'
    group by
        windows.window_name, windows.window_start_at, windows.window_end_at, days.traffic,
        days.segment_dimension, days.segment_value, days.stage, days.label_class, days.metric, days.k,
        days.cluster_id
)

select *, count(*) as n_clusters
from clusters
group by all
