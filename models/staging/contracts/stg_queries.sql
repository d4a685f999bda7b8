with landed as (
    select * from {{ landed_rows('queries') }}
),

typed as (
    select
        query_id,
        query,
        intent,
        query_set,
        coalesce(is_canary, false) as is_canary,
        expected_answer,
        {{ utc_timestamp('added_at') }} as added_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('added_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
