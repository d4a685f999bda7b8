select
    segments.experiment_id,
    segments.segment_dimension,
    segments.segment_value,
    histograms.stage,
    histograms.label_class,
    histograms.metric,
    histograms.k,
    segments.arm,
    histograms.value,
    sum(histograms.weight)::bigint as weight
from {{ ref('int_experiment_segments') }} as segments
inner join {{ ref('int_score_histograms') }} as histograms
    on segments.stored_dimension = histograms.segment_dimension
    and segments.stored_value = histograms.segment_value
    and histograms.traced_on >= segments.starts_on
    and histograms.traced_on < segments.ends_on
where histograms.traffic = 'production'
group by
    segments.experiment_id, segments.segment_dimension, segments.segment_value, histograms.stage,
    histograms.label_class, histograms.metric, histograms.k, segments.arm, histograms.value
