-- No score lies outside the range that dim_metrics declares: of the days rebuilt last, as those before were tested in
-- their night.
with scores as (
    select
        columns(* exclude (
            trace_id, traced_on, stage, label_class, k, completeness, n_relevant, n_returned, n_judged, n_hits,
            day_version
        ))
    from {{ ref('fct_query_scores') }}
    where day_version = (select max(day_version) from {{ ref('fct_query_scores') }})
),

lowest as (
    unpivot (select min(columns(*)) as '\0' from scores) on columns(*) into name metric value score -- noqa: RF05
),

highest as (
    unpivot (select max(columns(*)) as '\0' from scores) on columns(*) into name metric value score -- noqa: RF05
)

select
    metrics.metric,
    metrics.range_low,
    metrics.range_high,
    lowest.score as lowest,
    highest.score as highest
from {{ ref('dim_metrics') }} as metrics
inner join lowest using (metric)
inner join highest using (metric)
where isnan(highest.score) or lowest.score < metrics.range_low or highest.score > metrics.range_high
