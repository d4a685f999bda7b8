with scores as (
    select * from {{ ref('int_reported_scores') }}
),

labelled_traces as (
    select
        traces.time_grain, traces.traced_on, traces.bucket_at, traces.traffic, traces.session_id, traces.trace_id,
        traces.weight, traces.segment_key,
        min(traces.segment_key) over session_bucket = max(traces.segment_key) over session_bucket as is_uniform
    from {{ ref('int_bucketed_traces') }} as traces
    semi join {{ ref('int_relevant_sets') }} as sets
        on traces.traced_on = sets.traced_on and traces.trace_id = sets.trace_id
    window session_bucket as (
        partition by traces.time_grain, traces.traced_on, traces.bucket_at, traces.traffic, traces.session_id
    )
),

members as (
    -- A session whose traces share all segment values is one unit in each of them: it is counted once
    -- under their common key and spread over the segments later. Others are a unit per segment value.
    select * exclude (is_uniform), null::varchar as segment_dimension, null::varchar as segment_value
    from labelled_traces
    where is_uniform
    union all by name
    select labelled_traces.* exclude (is_uniform, segment_key), segments.segment_dimension, segments.segment_value
    from labelled_traces
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
    where not labelled_traces.is_uniform
)

select
    members.time_grain, members.traced_on, members.bucket_at, members.traffic,
    members.segment_key, members.segment_dimension, members.segment_value,
    scores.stage, scores.label_class, scores.metric, scores.k,
    members.session_id,
    any_value(scores.grid) as grid,
    -- a unit's score is the mean over its traces, undefined ones aside
    sum(scores.score) / (count(scores.score) * 1e12) as score,
    max(members.weight) as weight,
    count(scores.score) as n_scored,
    count(*) filter (where scores.score is null and scores.n_relevant = 0) as n_no_relevant,
    count(*) filter (where scores.score is null and scores.n_relevant > 0) as n_undefined,
    sum(scores.judged_share) as judged_sum,
    count(scores.judged_share) as n_judged_defined
from members
inner join scores
    on members.traced_on = scores.traced_on and members.trace_id = scores.trace_id
group by
    members.time_grain, members.traced_on, members.bucket_at, members.traffic,
    members.segment_key, members.segment_dimension, members.segment_value,
    scores.stage, scores.label_class, scores.metric, scores.k, members.session_id
