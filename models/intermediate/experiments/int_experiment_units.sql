select
    retrievals.experiment_id,
    retrievals.experiment_bucket as arm,
    -- who was put into an arm: the user where one is logged, since a user's sessions follow it
    count(distinct coalesce(retrievals.user_id, retrievals.session_id)) as n
from {{ ref('fct_retrievals') }} as retrievals
inner join {{ ref('int_experiment_arms') }} as arms
    on retrievals.experiment_id = arms.experiment_id
    and retrievals.traced_on >= arms.starts_on
    and retrievals.traced_on < arms.ends_on
    and arms.is_control
where retrievals.traffic = 'production'
group by retrievals.experiment_id, retrievals.experiment_bucket
