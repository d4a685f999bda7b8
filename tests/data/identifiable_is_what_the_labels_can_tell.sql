-- Identifiable is a metric of a complete class, or one that needs only the top k judged where enough of them were.
select quality.*
from {{ ref('mart_retrieval_quality') }} as quality
inner join {{ ref('dim_metrics') }} as metrics using (metric)
where quality.is_identifiable is distinct from (
        quality.completeness = 'complete'
        or (metrics.needs = 'judged_top_k' and coalesce(quality.judged_share >= {{ var('min_judged_share') }}, false))
    )
