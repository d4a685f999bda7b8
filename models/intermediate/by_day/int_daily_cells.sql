select
    *,
    {{ current_day_version() }} as day_version
from {{ ref('int_unit_cells') }}
where time_grain = 'day' and {{ is_affected('traced_on') }}
