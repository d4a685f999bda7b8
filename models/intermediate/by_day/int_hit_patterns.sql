with labelled as (
    select traced_on, trace_id
    from {{ ref('fct_query_scores') }}
    where stage = 'final' and label_class = 'implicit' and k = 0 and {{ is_affected('traced_on') }}
),

hits as (
    select traced_on, trace_id, rank, is_answer_level
    from {{ ref('int_implicit_hits') }}
    where {{ is_affected('traced_on') }}
),

trace_hits as (
    select
        labelled.traced_on,
        labelled.trace_id,
        coalesce(list(hits.rank) filter (where not hits.is_answer_level), []) as placed_ranks,
        coalesce(list(hits.rank) filter (where hits.is_answer_level), []) as answer_ranks
    from labelled
    left join hits on labelled.traced_on = hits.traced_on and labelled.trace_id = hits.trace_id
    group by labelled.traced_on, labelled.trace_id
),

units as (
    -- a session on a day within a segment value, as everywhere
    select
        traces.traced_on,
        segments.segment_dimension,
        segments.segment_value,
        max(traces.weight) as weight,
        count(*)::integer as n_traces,
        list_sort(flatten(list(trace_hits.placed_ranks))) as placed_ranks,
        list_sort(flatten(list(trace_hits.answer_ranks))) as answer_ranks
    from trace_hits
    inner join {{ ref('int_segmented_traces') }} as traces
        on trace_hits.traced_on = traces.traced_on and trace_hits.trace_id = traces.trace_id
    inner join {{ ref('int_segments') }} as segments
        on traces.traced_on = segments.traced_on and traces.segment_key = segments.segment_key
    where traces.traffic = 'production'
    group by traces.traced_on, segments.segment_dimension, segments.segment_value, traces.session_id
)

select
    traced_on,
    segment_dimension,
    segment_value,
    n_traces,
    placed_ranks,
    answer_ranks,
    count(*) as n_units,
    sum(weight)::bigint as weight,
    {{ current_day_version() }} as day_version
from units
group by traced_on, segment_dimension, segment_value, n_traces, placed_ranks, answer_ranks
