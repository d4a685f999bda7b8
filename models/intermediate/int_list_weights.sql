select
    traced_on, traffic, session_id, trace_id, segment_key,
    intent,
    n_returned,
    -- the lists of a session-day weigh as much as one, in equal parts
    round(weight / count(*) over (partition by traced_on, traffic, session_id))::bigint as weight
from {{ ref('int_segmented_traces') }}
where not is_fault
