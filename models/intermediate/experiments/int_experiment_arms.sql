with arms as (
    select * from {{ ref('experiments') }}
),

judged as (
    select
        arms.* exclude (ends_on),
        as_of.full_days_end_on - {{ var('label_maturity_days') }} as matured_on,
        least(coalesce(arms.ends_on + 1, matured_on), matured_on) as ends_on,
        case
            when count(*) over (partition by arms.experiment_id, arms.arm) > 1 then 'this arm is there twice'
            when count(*) filter (where arms.is_control) over (partition by arms.experiment_id) <> 1
                then 'an experiment has one control'
            when count(*) over (partition by arms.experiment_id) < 2 then 'an experiment has two arms or more'
            when not coalesce(arms.share > 0, false) then 'share is not above 0'
            when arms.starts_on is null then 'starts_on is missing'
            when not coalesce(arms.wanted_effect > 0 and arms.wanted_effect < 1, false)
                then 'wanted_effect is not between 0 and 1'
            when contains(arms.experiment_id || arms.arm, ' x ')
                then 'names must not hold " x ", which divides segment values'
        end as problem
    from arms
    cross join {{ ref('int_as_of') }} as as_of
)

select * exclude (problem, matured_on)
from judged
where case when problem is null then true else error('seeds/experiments.csv: ' || experiment_id || ': ' || problem) end
