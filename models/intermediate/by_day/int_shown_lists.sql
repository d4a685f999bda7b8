with cells as (
    select
        traced_on, traffic, segment_key, intent, n_returned,
        count(*) as n_traces,
        sum(weight)::bigint as weight
    from {{ ref('int_list_weights') }}
    where {{ is_affected('traced_on') }}
    group by all
)

select
    cells.traced_on, cells.traffic, segments.segment_dimension, segments.segment_value, cells.intent, cells.n_returned,
    sum(cells.n_traces)::bigint as n_traces,
    sum(cells.weight)::bigint as weight,
    {{ current_day_version() }} as day_version
from cells
inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
group by
    cells.traced_on, cells.traffic, segments.segment_dimension, segments.segment_value, cells.intent, cells.n_returned
