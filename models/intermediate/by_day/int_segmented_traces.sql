select
    * exclude (segments),
    {{ current_day_version() }} as day_version
from {{ ref('int_described_traces') }}
where {{ is_affected('traced_on') }}
