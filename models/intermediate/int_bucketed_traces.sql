with traces as (
    select * from {{ ref('int_segmented_traces') }}
)

select * exclude (segments), 'day' as time_grain, traced_on::timestamp as bucket_at
from traces
union all
select * exclude (segments), 'hour' as time_grain, date_trunc('hour', traced_at) as bucket_at
from traces
