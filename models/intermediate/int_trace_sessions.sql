with lost as (
    select trace_id, unnest(lost_deliveries) as lost
    from {{ ref('stg_retrieval_traces') }}
)

select trace_id, session_id, changed_in_load as load_id
from {{ ref('stg_retrieval_traces') }}
union all
-- a corrected trace leaves a session behind
select trace_id, lost.was_in as session_id, lost.load_id
from lost
where lost.outcome = 'superseded'
