with landed as (
    select * from {{ landed_rows('alert_events') }}
),

typed as (
    select
        event_id,
        alert_id,
        event,
        {{ utc_timestamp('occurred_at') }} as occurred_at,
        dedup_key,
        slo_id,
        segment_dimension,
        segment_value,
        {{ utc_timestamp('night_on') }}::date as night_on,
        severity,
        owner,
        runbook,
        metric,
        k,
        stage,
        label_class,
        traffic,
        window_name,
        {{ utc_timestamp('window_starts_on') }}::date as window_starts_on,
        state,
        estimate,
        bound_low,
        bound_high,
        baseline_estimate,
        objective,
        margin,
        n_units,
        versions,
        top_segments,
        publication_id,
        about,
        channel,
        n_attempts,
        error,
        reason,
        actor,
        note,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('occurred_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
