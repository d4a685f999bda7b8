select
    units.experiment_id,
    units.arm,
    count(distinct units.unit_digest) as n
from {{ ref('int_experiment_unit_days') }} as units
inner join {{ ref('int_experiment_arms') }} as arms
    on units.experiment_id = arms.experiment_id
    and units.traced_on >= arms.starts_on
    and units.traced_on < arms.ends_on
    and arms.is_control
group by units.experiment_id, units.arm
