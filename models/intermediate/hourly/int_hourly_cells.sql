select *
from {{ ref('int_unit_cells') }}
where time_grain = 'hour' and {{ is_listed('rq_hourly_days', 'traced_on') }}
