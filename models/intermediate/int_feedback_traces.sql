with feedback as (
    select * from {{ ref('stg_feedback') }}
),

traces as (
    select trace_id, session_id, traced_at, traced_on, changed_in_load, {{ chunk_ids('retrieved') }} as shown_ids
    from {{ ref('stg_retrieval_traces') }}
),

so_far as (
    {{ rows_so_far({
        'feedback_id': 'varchar', 'chunk_id': 'varchar', 'trace_id': 'varchar', 'traced_on': 'date',
        'attachment': 'varchar', 'changed_in_load': 'integer'
    }) }}
),

changed_traces as (
    select trace_id, session_id from traces
    where changed_in_load > (select coalesce(max(changed_in_load), 0) from so_far)
),

to_attach as (
    -- new and corrected feedback, and what a new or corrected trace may re-route
    select * from feedback
    where changed_in_load > (select coalesce(max(changed_in_load), 0) from so_far)
        or trace_id in (select trace_id from changed_traces)
        or session_id in (select session_id from changed_traces)
),

possible_traces as (
    -- a named trace is the only possible one; a session offers all its traces
    select to_attach.feedback_id, traces.*, 1 as n_possible
    from to_attach
    inner join traces on to_attach.trace_id = traces.trace_id
    union all
    select to_attach.feedback_id, traces.*, count(*) over (partition by to_attach.feedback_id) as n_possible
    from to_attach
    inner join traces on to_attach.session_id = traces.session_id
    where to_attach.trace_id is null
),

targets as (
    -- answer-level feedback and feedback that names no chunk keep one row
    select *, unnest(case when len(chunk_ids) > 0 then list_distinct(chunk_ids) else [null] end) as chunk_id
    from to_attach
),

attached as (
    select
        targets.feedback_id,
        targets.chunk_id,
        any_value(targets.given_at) as given_at,
        any_value(targets.is_answer_level) as is_answer_level,
        any_value(targets.changed_in_load) as feedback_load_id,
        count(possible.trace_id) as n_possible,
        arg_max(
            {'trace_id': possible.trace_id, 'traced_at': possible.traced_at, 'traced_on': possible.traced_on},
            {'traced_at': possible.traced_at, 'trace_id': possible.trace_id}
        ) filter (
            where possible.n_possible = 1 or (
                possible.traced_at <= targets.given_at
                and (targets.is_answer_level or list_contains(possible.shown_ids, targets.chunk_id))
            )
        ) as trace
    from targets
    left join possible_traces as possible on targets.feedback_id = possible.feedback_id
    group by targets.feedback_id, targets.chunk_id
),

judged as (
    select
        feedback_id,
        chunk_id,
        trace.trace_id,
        trace.traced_on,
        case
            when chunk_id is null and not is_answer_level then 'names_no_chunk'
            when n_possible = 0 then 'orphan'
            when trace is null then 'chunk_not_shown'
            when given_at > trace.traced_at + to_days({{ var('label_lookback_days') }}) then 'too_late'
            else 'attached'
        end as attachment,
        feedback_load_id
    from attached
),

earlier_days as (
    select feedback_id, list(distinct traced_on order by traced_on) as previous_days
    from so_far
    group by feedback_id
)

select
    judged.* exclude (feedback_load_id),
    case
        when so_far.attachment is not null
            and (so_far.trace_id, so_far.traced_on, so_far.attachment)
            is not distinct from (judged.trace_id, judged.traced_on, judged.attachment)
            and judged.feedback_load_id <= so_far.changed_in_load
            then so_far.changed_in_load
        else (select max(load_id) from {{ ref('stg_landing_files') }})
    end as changed_in_load,
    coalesce(earlier_days.previous_days, []) as previous_days
from judged
left join so_far
    on judged.feedback_id = so_far.feedback_id
    and judged.chunk_id is not distinct from so_far.chunk_id
left join earlier_days
    on judged.feedback_id = earlier_days.feedback_id
