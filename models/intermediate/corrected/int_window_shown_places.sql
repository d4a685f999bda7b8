with judged as (
    select distinct window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, k
    from {{ ref('int_window_places') }}
),

places as (
    select
        judged.*, lists.intent, lists.weight,
        unnest(range(1, least(lists.n_returned, judged.k) + 1))::integer as rank
    from judged
    inner join {{ ref('int_window_shown_lists') }} as lists
        using (window_name, window_start_at, traffic, segment_dimension, segment_value)
)

select
    window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value, k, intent, rank,
    sum(weight)::bigint as weight
from places
group by all
