select *, 'day' as time_grain, traced_on::timestamp as bucket_at
from {{ ref('int_segmented_traces') }}
union all
select *, 'hour' as time_grain, date_trunc('hour', traced_at) as bucket_at
from {{ ref('int_segmented_traces') }}
