with traces as (
    select trace_id, session_id, traced_at, traced_on, {{ chunk_ids('retrieved') }} as shown_ids, false as is_purged
    from {{ ref('stg_retrieval_traces') }}
    union all
    -- remembered, so that feedback does not fall to the next trace of the session
    select
        row_key as trace_id,
        session_id,
        happened_on::timestamp as traced_at,
        happened_on as traced_on,
        []::varchar[] as shown_ids,
        true as is_purged
    from {{ ref('stg_purged_rows') }}
    where model = 'stg_retrieval_traces'
)

select
    trace_id,
    session_id,
    traced_on,
    shown_ids,
    -- the greatest is the latest
    {'traced_at': traced_at, 'trace_id': trace_id, 'traced_on': traced_on, 'is_purged': is_purged} as trace
from traces
