select * exclude (time_grain)
from {{ ref('int_score_cells') }}
where time_grain = 'hour' and list_contains(getvariable('rq_hourly_days'), traced_on)
