with scores as (
    select * from {{ ref('int_reported_scores') }}
),

segments as (
    select * from {{ ref('int_bucketed_segments') }}
)

select
    segments.time_grain,
    segments.traced_on,
    segments.bucket_at,
    segments.traffic,
    segments.segment_dimension,
    segments.segment_value,
    scores.stage,
    scores.label_class,
    scores.metric,
    scores.k,
    segments.session_id,
    any_value(scores.grid) as grid,
    any_value(scores.completeness) as completeness,
    -- a unit's score is the mean over its traces, undefined ones aside
    sum(scores.score)::bigint as score_sum,
    count(scores.score) as n_scored,
    sum(scores.judged_share) filter (where scores.score is not null)::hugeint as judged_sum,
    count(scores.judged_share) filter (where scores.score is not null) as n_judged_defined,
    count(*) filter (where scores.score is null and scores.n_relevant = 0) as n_no_relevant,
    count(*) filter (where scores.score is null and scores.n_relevant > 0) as n_undefined,
    max(segments.weight) as weight
from segments
inner join scores
    on segments.traced_on = scores.traced_on
    and segments.trace_id = scores.trace_id
group by
    segments.time_grain, segments.traced_on, segments.bucket_at, segments.traffic, segments.segment_dimension,
    segments.segment_value, scores.stage, scores.label_class, scores.metric, scores.k, segments.session_id
