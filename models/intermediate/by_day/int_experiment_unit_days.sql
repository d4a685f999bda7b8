with retrievals as (
    select * from {{ ref('fct_retrievals') }}
    where traffic = 'production' and experiment_id is not null and {{ is_affected('traced_on') }}
)

select distinct
    traced_on,
    experiment_id,
    experiment_bucket as arm,
    -- who was put into an arm: the user where one is logged, since a user's sessions follow it; as a
    -- digest, because this outlives the raw rows
    md5_number_lower(coalesce(user_id, session_id)) as unit_digest,
    {{ current_day_version() }} as day_version
from retrievals
