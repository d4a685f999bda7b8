-- Feedback is never dropped: every event, and every chunk it names, has a trace or the reason why it has none. Of the
-- events that changed last, as those before were tested in their night.
with named as (
    select feedback_id, unnest(case when len(chunk_ids) > 0 then chunk_ids else [null] end) as chunk_id
    from {{ ref('stg_feedback') }}
    where changed_in_load = (select max(changed_in_load) from {{ ref('stg_feedback') }})
)

select named.*, attachments.attachment
from named
left join {{ ref('int_feedback_traces') }} as attachments
    on named.feedback_id = attachments.feedback_id
    and named.chunk_id is not distinct from attachments.chunk_id
where attachments.attachment is null
    or (attachments.attachment = 'attached' and attachments.trace_id is null)
    or (attachments.attachment in ('orphan', 'chunk_not_shown') and attachments.trace_id is not null)
