with events as (
    select * from {{ ref('stg_alert_events') }}
),

opened as (
    -- what was known then: nothing that is built from traces or labels is read here
    select *
    from events
    where event = 'opened'
    qualify row_number() over (partition by alert_id order by occurred_at, event_id) = 1
),

ends as (
    select
        alert_id,
        min(occurred_at) filter (where event = 'acknowledged') as acknowledged_at,
        arg_min(actor, occurred_at) filter (where event = 'acknowledged') as acknowledged_by,
        arg_min(note, occurred_at) filter (where event = 'acknowledged') as acknowledged_note,
        min(occurred_at) filter (where event = 'resolved') as resolved_at,
        min(night_on) filter (where event = 'resolved') as resolved_night_on,
        arg_min(reason, occurred_at) filter (where event = 'resolved') as resolved_reason
    from events
    group by alert_id
),

messages as (
    select
        alert_id, about, channel,
        count(*) filter (where event = 'sent') as n_sends,
        count(*) filter (where event = 'send_failed') as n_failed_sends,
        arg_max(error, occurred_at) filter (where event = 'send_failed') as error,
        max(occurred_at) filter (where event = 'send_failed') as failed_at,
        min(occurred_at) filter (where event = 'sent') as sent_at
    from events
    where event in ('sending', 'sent', 'send_failed')
    group by alert_id, about, channel
),

sends as (
    select
        alert_id,
        sum(n_sends)::bigint as n_sends,
        sum(n_failed_sends)::bigint as n_failed_sends,
        min(sent_at) filter (where about = 'opened') as first_sent_at,
        -- of messages that have not arrived to this day
        arg_max(error, failed_at) filter (where n_sends = 0) as last_send_error
    from messages
    group by alert_id
)

select
    opened.alert_id, opened.dedup_key, opened.slo_id, opened.segment_dimension, opened.segment_value,
    opened.severity, opened.owner, opened.runbook, opened.metric, opened.k::integer as k, opened.stage,
    opened.label_class, opened.traffic, opened.window_name, opened.window_starts_on,
    opened.occurred_at as opened_at,
    opened.night_on as opened_night_on,
    opened.objective, opened.margin,
    opened.state as known_state,
    opened.estimate as known_estimate,
    opened.bound_low as known_bound_low,
    opened.bound_high as known_bound_high,
    opened.baseline_estimate as known_baseline_estimate,
    opened.n_units as known_n_units,
    opened.versions as known_versions,
    opened.top_segments as known_top_segments,
    opened.publication_id as known_publication_id,
    ends.acknowledged_at, ends.acknowledged_by, ends.acknowledged_note,
    ends.resolved_at, ends.resolved_night_on, ends.resolved_reason,
    ends.resolved_at is null as is_open,
    coalesce(sends.n_sends, 0) as n_sends,
    coalesce(sends.n_failed_sends, 0) as n_failed_sends,
    sends.first_sent_at,
    sends.last_send_error
from opened
inner join ends using (alert_id)
left join sends using (alert_id)
