select * exclude (time_grain)
from {{ ref('int_score_counts') }}
where time_grain = 'hour' and {{ is_listed('rq_hourly_days', 'traced_on') }}
