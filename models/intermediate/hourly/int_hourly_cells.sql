select *
from {{ ref('int_unit_cells') }}
where time_grain = 'hour' and list_contains(getvariable('rq_hourly_days'), traced_on)
