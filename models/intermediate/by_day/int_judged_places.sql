with judged as (
    select traced_on, trace_id, rank, is_relevant::integer::double as value
    from {{ ref('int_judged_chunks') }}
    where label_class = 'explicit' and stage = 'final' and grade is not null and {{ is_affected('traced_on') }}
),

lists as (
    select * from {{ ref('int_list_weights') }}
    where {{ is_affected('traced_on') }}
),

segments as (
    select * from {{ ref('int_segments') }}
    where {{ is_affected('traced_on') }}
),

cutoffs as (
    select unnest(reported_k) as k from {{ ref('dim_metrics') }}
    where metric = 'precision'
),

places as (
    select lists.*, judged.rank, judged.value
    from judged
    inner join lists using (traced_on, trace_id)
),

sessions as (
    -- what all judged places of a session-day weigh, by the combination of segment values they are in
    select
        places.traced_on, places.traffic, places.session_id, places.segment_key, cutoffs.k,
        sum(places.weight)::hugeint as judged_weight
    from places
    inner join cutoffs on places.rank <= cutoffs.k
    group by all
),

cells as (
    select
        places.traced_on, places.traffic, places.segment_key, places.intent, sessions.k, places.rank, places.value,
        sessions.segment_key as beside_key,
        sum(places.weight)::bigint as weight,
        sum(places.weight * sessions.judged_weight)::hugeint as weight_product
    from places
    inner join sessions using (traced_on, traffic, session_id)
    where places.rank <= sessions.k
    group by all
)

select
    cells.traced_on, cells.traffic, segments.segment_dimension, segments.segment_value, cells.k, cells.intent,
    cells.rank, cells.value,
    sum(cells.weight) filter (where cells.segment_key = cells.beside_key)::bigint as weight,
    -- within a segment value they stand for one unit, however many they are
    sum(cells.weight_product)::hugeint as weight_square_sum,
    {{ current_day_version() }} as day_version
from cells
inner join segments using (traced_on, segment_key)
inner join segments as beside
    on cells.traced_on = beside.traced_on and cells.beside_key = beside.segment_key
    and segments.segment_dimension = beside.segment_dimension and segments.segment_value = beside.segment_value
group by
    cells.traced_on, cells.traffic, segments.segment_dimension, segments.segment_value, cells.k, cells.intent,
    cells.rank, cells.value
