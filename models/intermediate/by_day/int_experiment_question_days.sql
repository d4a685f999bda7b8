with answers as (
    select *, experiment_bucket as arm from {{ ref('fct_retrievals') }}
    where traffic = 'production' and experiment_id is not null and query_id is not null
        and {{ is_affected('traced_on') }}
),

scores as (
    select * from {{ ref('int_reported_scores') }}
    where score is not null and {{ is_affected('traced_on') }}
)

select
    answers.traced_on, answers.experiment_id, answers.arm, answers.query_id,
    scores.stage, scores.label_class, scores.metric, scores.k,
    sum(scores.score)::hugeint as score_sum,
    count(scores.score) as n_scores,
    {{ current_day_version() }} as day_version
from answers
left join scores using (traced_on, trace_id)
group by
    answers.traced_on, answers.experiment_id, answers.arm, answers.query_id,
    scores.stage, scores.label_class, scores.metric, scores.k
