with traces as (
    select * from {{ ref('int_segmented_traces') }}
)

select *, 'day' as time_grain, traced_on::timestamp as bucket_at
from traces
union all
select *, 'hour' as time_grain, date_trunc('hour', traced_at) as bucket_at
from traces
