with judged as (
    select traced_on, trace_id, rank, is_relevant::integer::double as value
    from {{ ref('int_judged_chunks') }}
    where label_class = 'explicit' and stage = 'final' and grade is not null and {{ is_affected('traced_on') }}
),

traces as (
    select * from {{ ref('int_listed_traces') }}
    where stage = 'final' and {{ is_affected('traced_on') }}
),

cutoffs as (
    select unnest(reported_k) as k from {{ ref('dim_metrics') }}
    where metric = 'precision'
),

places as (
    select
        traces.*, cutoffs.k, judged.rank, judged.value,
        -- what all judged places of the unit weigh: they stand for one unit, however many they are
        sum(traces.trace_weight) over (
            partition by
                traces.traced_on, traces.traffic, traces.segment_key, traces.segment_dimension, traces.segment_value,
                traces.session_id, cutoffs.k
        )::hugeint as judged_weight
    from judged
    inner join traces using (traced_on, trace_id)
    inner join cutoffs on judged.rank <= cutoffs.k
),

cells as (
    select
        traced_on, traffic, segment_key, segment_dimension, segment_value, k, intent, rank, value,
        sum(trace_weight)::bigint as weight,
        sum(trace_weight * judged_weight)::hugeint as weight_square_sum
    from places
    group by all
),

spread as (
    select * exclude (segment_key)
    from cells
    where segment_key is null
    union all by name
    select
        cells.* exclude (segment_key, segment_dimension, segment_value),
        segments.segment_dimension, segments.segment_value
    from cells
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
)

select
    traced_on, traffic, segment_dimension, segment_value, k, intent, rank, value,
    sum(weight)::bigint as weight,
    sum(weight_square_sum)::hugeint as weight_square_sum,
    {{ current_day_version() }} as day_version
from spread
group by traced_on, traffic, segment_dimension, segment_value, k, intent, rank, value
