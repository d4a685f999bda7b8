with landed as (
    select * from {{ landed_rows('drill_reports') }}
),

typed as (
    select
        drill_result_id,
        drill_id,
        source,
        variant,
        is_expected_catch,
        metric,
        k,
        stage,
        label_class,
        objective,
        healthy_mean,
        degraded_mean,
        is_paged,
        nights_to_page,
        units_to_page,
        n_nights,
        verdict,
        {{ utc_timestamp('drilled_at') }} as drilled_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('drilled_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
