{% macro alert_events_columns() %}
    {{ return({
        'event_id': 'VARCHAR', 'alert_id': 'VARCHAR', 'event': 'VARCHAR', 'occurred_at': 'VARCHAR',
        'dedup_key': 'VARCHAR', 'slo_id': 'VARCHAR', 'segment_dimension': 'VARCHAR', 'segment_value': 'VARCHAR',
        'night_on': 'VARCHAR', 'severity': 'VARCHAR', 'owner': 'VARCHAR', 'runbook': 'VARCHAR', 'metric': 'VARCHAR',
        'k': 'BIGINT', 'stage': 'VARCHAR', 'label_class': 'VARCHAR', 'traffic': 'VARCHAR', 'window_name': 'VARCHAR',
        'window_starts_on': 'VARCHAR', 'state': 'VARCHAR', 'estimate': 'DOUBLE', 'bound_low': 'DOUBLE',
        'bound_high': 'DOUBLE', 'baseline_estimate': 'DOUBLE', 'objective': 'DOUBLE', 'margin': 'DOUBLE',
        'n_units': 'BIGINT', 'versions': 'VARCHAR[]',
        'top_segments': 'STRUCT(segment_dimension VARCHAR, segment_value VARCHAR, estimate DOUBLE, n_units BIGINT, contribution DOUBLE)[]',
        'publication_id': 'VARCHAR', 'about': 'VARCHAR', 'channel': 'VARCHAR', 'n_attempts': 'BIGINT',
        'error': 'VARCHAR', 'reason': 'VARCHAR', 'actor': 'VARCHAR', 'note': 'VARCHAR', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro alert_events_reject_reason() -%}
case
    when {{ present('event_id') }} is null then 'missing_event_id'
    when {{ present('alert_id') }} is null then 'missing_alert_id'
    when not coalesce(event in ('opened', 'sending', 'sent', 'send_failed', 'acknowledged', 'resolved'), false)
        then 'unknown_event'
    when {{ utc_timestamp('occurred_at') }} is null then 'bad_occurred_at'
    when event = 'opened' and ({{ present('slo_id') }} is null or segment_value is null) then 'missing_slo_id'
    when event in ('opened', 'resolved') and {{ utc_timestamp('night_on') }} is null then 'bad_night_on'
    when window_starts_on is not null and {{ utc_timestamp('window_starts_on') }} is null then 'bad_window_starts_on'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
