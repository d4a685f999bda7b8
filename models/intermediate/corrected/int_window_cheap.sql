select
    days.window_name,
    days.window_start_at,
    days.window_end_at,
    days.traffic,
    histograms.segment_dimension,
    histograms.segment_value,
    histograms.stage,
    days.trusted_class,
    pairs.cheap_class,
    histograms.metric,
    histograms.k,
    histograms.value,
    sum(histograms.weight)::bigint as weight
from {{ ref('int_window_trusted_days') }} as days
inner join {{ ref('int_corrections') }} as pairs using (trusted_class)
inner join {{ ref('int_score_histograms') }} as histograms
    on days.traced_on = histograms.traced_on and days.traffic = histograms.traffic
    and pairs.cheap_class = histograms.label_class
group by all
