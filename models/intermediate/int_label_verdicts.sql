with latest_votes as (
    -- a rater's later word on a chunk replaces the earlier one
    select * from {{ ref('int_label_votes') }}
    qualify row_number() over (
            partition by traced_on, trace_id, query_id, label_class, evidence_id, chunk_id, doc_id, rater_id, signal
            order by voted_at desc nulls last, event_id desc
        ) = 1
),

rater_votes as (
    -- of several chunks of one document the best speaks for it
    select
        traced_on, trace_id, query_id, label_class, evidence_id, rater_id, signal,
        any_value(relevant_from) as relevant_from,
        max(grade) as grade,
        max(weight) as weight,
        max(voted_at) as labelled_at,
        bool_or(is_answer_level) as is_answer_level,
        min(inclusion_probability) as inclusion_probability
    from latest_votes
    group by traced_on, trace_id, query_id, label_class, evidence_id, rater_id, signal
),

counted as (
    select
        traced_on, trace_id, query_id, label_class, evidence_id,
        any_value(relevant_from) as relevant_from,
        count(distinct coalesce(rater_id, ''))::integer as n_raters,
        count(*) filter (where grade >= relevant_from) as n_for,
        count(*) filter (where grade < relevant_from) as n_against,
        sum(grade) filter (where grade >= relevant_from) as grades_for,
        sum(grade) filter (where grade < relevant_from) as grades_against,
        sum(weight)::bigint as weight,
        max(labelled_at) as labelled_at,
        bool_or(is_answer_level) as is_answer_level,
        min(inclusion_probability) as inclusion_probability
    from rater_votes
    group by traced_on, trace_id, query_id, label_class, evidence_id
)

select
    traced_on, trace_id, query_id, label_class, evidence_id, relevant_from,
    n_raters, labelled_at, is_answer_level, inclusion_probability,
    weight / 1e6 as weight,
    case
        -- implicit signals combine by the sign of their sum, raters by majority; a tie is unjudged
        when label_class = 'implicit' and weight > 0 then relevant_from
        when label_class = 'implicit' and weight < 0 then 0
        when label_class = 'implicit' then null
        when n_for > n_against then floor(grades_for / n_for)::integer
        when n_for < n_against then floor(grades_against / n_against)::integer
    end as grade
from counted
