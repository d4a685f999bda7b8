with cells as (
    select * exclude (day_version) from {{ ref('int_daily_cells') }}
    union all
    select * from {{ ref('int_hourly_cells') }}
)

select * exclude (segment_key)
from cells
where segment_key is null
union all by name
select
    cells.* exclude (segment_key, segment_dimension, segment_value), segments.segment_dimension, segments.segment_value
from cells
inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
