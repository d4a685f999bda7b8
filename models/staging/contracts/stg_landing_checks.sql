with landed as (
    select * from {{ landed_rows('landing_checks') }}
),

typed as (
    select
        check_id,
        check_run_id,
        contract,
        expectation_id,
        column_name,
        severity,
        outcome,
        message,
        observed,
        minimum,
        maximum,
        n_rows,
        n_sampled,
        n_failed,
        examples,
        {{ utc_timestamp('checked_at') }} as checked_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('checked_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
