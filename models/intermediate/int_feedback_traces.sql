-- few rows of a long history are asked for: looked up where they are
with so_far as not materialized (
    {{ rows_so_far({
        'feedback_id': 'varchar', 'chunk_id': 'varchar', 'trace_id': 'varchar', 'traced_on': 'date',
        'attachment': 'varchar', 'changed_in_load': 'integer', 'policy_version': 'integer'
    }) }}
),

changed_traces as (
    select trace_id, session_id from {{ ref('int_trace_sessions') }}
    where load_id > (select coalesce(max(changed_in_load), 0) from so_far)
),

targets as (
    -- what is new or corrected, what such a trace may re-route, all under a new policy; a row per chunk, or for none
    select *, unnest(case when len(chunk_ids) > 0 then list_distinct(chunk_ids) else [null] end) as chunk_id
    from {{ ref('stg_feedback') }}
    where changed_in_load > (select coalesce(max(changed_in_load), 0) from so_far)
        or trace_id in (select trace_id from changed_traces)
        or session_id in (select session_id from changed_traces)
        or {{ current_policy_version() }} > (select max(policy_version) from so_far)
),

attached as (
    -- a named trace is the only possible one
    select
        targets.feedback_id, targets.chunk_id, targets.given_at, targets.is_answer_level, targets.changed_in_load,
        (named.trace_id is not null)::bigint as n_possible,
        coalesce(named.trace.is_purged, false) as is_any_purged,
        named.trace
    from targets
    left join {{ ref('int_possible_traces') }} as named on targets.trace_id = named.trace_id
    where targets.trace_id is not null
    union all
    -- a session offers all its traces; what they showed is read of their days alone
    select
        targets.feedback_id, targets.chunk_id, targets.given_at, targets.is_answer_level, targets.changed_in_load,
        count(offered.trace_id) as n_possible,
        coalesce(bool_or(offered.trace.is_purged), false) as is_any_purged,
        case when n_possible = 1 then max(offered.trace) else max(offered.trace) filter (
                    where offered.trace.traced_at <= targets.given_at
                    and (targets.is_answer_level or list_contains(shown.shown_ids, targets.chunk_id))
                )
        end as trace
    from targets
    left join {{ ref('int_possible_traces') }} as offered on targets.session_id = offered.session_id
    left join {{ ref('int_possible_traces') }} as shown
        on offered.traced_on = shown.traced_on and offered.trace_id = shown.trace_id
    where targets.trace_id is null
    group by all
),

explained as (
    select
        feedback_id, chunk_id, trace.trace_id, trace.traced_on, changed_in_load,
        case
            when chunk_id is null and not is_answer_level then 'names_no_chunk'
            when trace.is_purged then 'too_late'
            when trace.trace_id is null and (is_any_purged or not {{ is_kept('given_at::date') }}) then 'too_late'
            when n_possible = 0 then 'orphan'
            when trace.trace_id is null then 'chunk_not_shown'
            when given_at > trace.traced_at + to_days({{ label_lookback_days() }}) then 'too_late'
            else 'attached'
        end as attachment
    from attached
),

earlier as (
    select * from so_far
    where feedback_id in (select feedback_id from targets)
)

select
    explained.* exclude (changed_in_load),
    case
        when explained.changed_in_load <= earlier.changed_in_load
            -- in a struct, NULL equals NULL
            and {'trace': explained.trace_id, 'day': explained.traced_on, 'how': explained.attachment}
            = {'trace': earlier.trace_id, 'day': earlier.traced_on, 'how': earlier.attachment}
            then earlier.changed_in_load
        else (select max(load_id) from {{ ref('stg_landing_files') }})
    end as changed_in_load,
    coalesce((
        select list(distinct before.traced_on) from earlier as before
        where before.feedback_id = explained.feedback_id
    ), []) as previous_days,
    {{ current_policy_version() }} as policy_version
from explained
left join earlier
    on explained.feedback_id = earlier.feedback_id and explained.chunk_id is not distinct from earlier.chunk_id
