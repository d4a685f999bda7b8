with clusters as (
    select
        nights.slo_id,
        segment_value,
        nights.night_on,
        nights.window_role,
        sum(days.score_sum)::bigint as score_sum,
        sum(days.unit_sum)::bigint as unit_sum
    from {{ ref('int_slo_nights') }} as nights
    inner join {{ ref('int_cluster_days') }} as days
        using (traffic, segment_dimension, segment_value, stage, label_class, metric, k)
    where days.traced_on >= nights.starts_on
        and days.traced_on < nights.ends_on
        and nights.ends_on >= nights.starts_on + days.min_window_days
    group by nights.slo_id, segment_value, nights.night_on, nights.window_role, days.cluster_id
)

select *, count(*) as n_clusters
from clusters
group by all
