with landed as (
    select * from {{ landed_rows('traffic_counts') }}
),

typed as (
    select
        sha256(row({{ utc_timestamp('day') }}::date, coalesce(environment, ''))::varchar) as traffic_count_id,
        {{ utc_timestamp('day') }}::date as served_on,
        coalesce({{ present('environment') }}, '') as environment,
        try_cast(n_queries as bigint) as n_queries,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        {{ utc_timestamp('ingested_at') }} as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
