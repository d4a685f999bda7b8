select
    * exclude (time_grain, bucket_at),
    {{ current_day_version() }} as day_version
from {{ ref('int_score_counts') }}
where time_grain = 'day' and {{ is_affected('traced_on') }}
