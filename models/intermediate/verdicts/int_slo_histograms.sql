select
    nights.slo_id,
    nights.segment_value,
    nights.night_on,
    nights.window_role,
    histograms.value,
    sum(histograms.weight)::bigint as weight
from {{ ref('int_slo_nights') }} as nights
inner join {{ ref('int_score_histograms') }} as histograms
    on nights.traffic = histograms.traffic
    and nights.segment_dimension = histograms.segment_dimension
    and nights.segment_value = histograms.segment_value
    and nights.stage = histograms.stage
    and nights.label_class = histograms.label_class
    and nights.metric = histograms.metric
    and nights.k = histograms.k
    and histograms.traced_on >= nights.starts_on
    and histograms.traced_on < nights.ends_on
group by nights.slo_id, nights.segment_value, nights.night_on, nights.window_role, histograms.value
