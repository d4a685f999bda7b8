-- Identifiable is a metric of a complete class (there an unjudged chunk is not relevant, unless the metric
-- says otherwise of it), or one that needs only the top k judged where enough of them were.
select quality.*
from {{ ref('mart_retrieval_quality') }} as quality
inner join {{ ref('dim_metrics') }} as metrics using (metric)
where quality.is_identifiable is distinct from (
        (quality.completeness = 'complete' and metrics.needs in ('complete', 'judged_top_k'))
        or (
            metrics.needs in ('judged_top_k', 'judged_share')
            and coalesce(round(quality.judged_share, 9) >= {{ var('min_judged_share') }}, false)
        )
    )
