with arms as (
    select * from {{ ref('int_experiment_arms') }}
),

answers as (
    select
        arms.is_control, days.experiment_id, days.arm, days.query_id,
        days.stage, days.label_class, days.metric, days.k, days.score_sum, days.n_scores
    from {{ ref('int_experiment_question_days') }} as days
    inner join arms
        on days.experiment_id = arms.experiment_id
        and days.arm = arms.arm
        and days.traced_on >= arms.starts_on
        and days.traced_on < arms.ends_on
),

questions as (
    select experiment_id, arm, any_value(is_control) as is_control, list(distinct query_id) as query_ids
    from answers
    group by experiment_id, arm
),

pairs as (
    -- both arms answered the same questions: shadow traffic, compared question by question
    select treatment.experiment_id, control.arm as control, treatment.arm as treatment
    from questions as treatment
    inner join questions as control using (experiment_id)
    where control.is_control and not treatment.is_control
        and len(list_intersect(control.query_ids, treatment.query_ids))
        >= 0.95 * greatest(len(control.query_ids), len(treatment.query_ids))
),

scores as (
    select
        experiment_id, arm, query_id, stage, label_class, metric, k,
        sum(score_sum) / (sum(n_scores) * 1e12) as score
    from answers
    where n_scores > 0
    group by experiment_id, arm, query_id, stage, label_class, metric, k
)

select
    pairs.experiment_id, control.stage, control.label_class, control.metric, control.k, pairs.control, pairs.treatment,
    round(treatment.score - control.score, 12) as value,
    count(*) * 1000000 as weight
from pairs
inner join scores as control
    on pairs.experiment_id = control.experiment_id and pairs.control = control.arm
inner join scores as treatment
    on pairs.experiment_id = treatment.experiment_id and pairs.treatment = treatment.arm
    and control.query_id = treatment.query_id and control.stage = treatment.stage
    and control.label_class = treatment.label_class and control.metric = treatment.metric and control.k = treatment.k
group by all
