with judged as (
    select distinct window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, k
    from {{ ref('int_window_places') }}
),

listed as (
    select * from {{ ref('int_window_listed') }}
    where stage = 'final'
),

places as (
    select
        judged.*, listed.intent, listed.trace_weight,
        unnest(range(1, least(listed.n_listed, judged.k) + 1))::integer as rank
    from judged
    inner join listed using (window_name, window_start_at, traffic, segment_dimension, segment_value)
)

select
    window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, k, intent, rank,
    sum(trace_weight)::bigint as weight
from places
group by all
