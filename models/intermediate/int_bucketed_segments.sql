with segments as (
    select * from {{ ref('int_trace_segments') }}
)

select *, 'day' as time_grain, traced_on::timestamp as bucket_at from segments
union all
select *, 'hour' as time_grain, date_trunc('hour', traced_at) as bucket_at from segments
