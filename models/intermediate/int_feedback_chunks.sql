with attachments as (
    select * from {{ ref('int_feedback_traces') }}
    where attachment = 'attached'
),

shown as (
    select trace_id, traced_on, unnest({{ chunk_ids('retrieved') }}) as chunk_id
    from {{ ref('stg_retrieval_traces') }}
)

select feedback_id, trace_id, traced_on, chunk_id
from attachments
where chunk_id is not null
union all
-- feedback on the answer speaks of every chunk of the final list
select attachments.feedback_id, attachments.trace_id, attachments.traced_on, shown.chunk_id
from attachments
inner join shown using (trace_id, traced_on)
where attachments.chunk_id is null and shown.chunk_id is not null
