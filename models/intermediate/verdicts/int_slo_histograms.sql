select
    nights.slo_id,
    segment_value,
    nights.night_on,
    nights.window_role,
    histograms.value,
    sum(histograms.weight)::bigint as weight
from {{ ref('int_slo_nights') }} as nights
inner join {{ ref('int_score_histograms') }} as histograms
    using (traffic, segment_dimension, segment_value, stage, label_class, metric, k)
where histograms.traced_on >= nights.starts_on
    and histograms.traced_on < nights.ends_on
group by nights.slo_id, segment_value, nights.night_on, nights.window_role, histograms.value
