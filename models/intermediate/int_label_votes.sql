with classes as (
    select * from {{ ref('label_classes') }}
),

signals as (
    select * from {{ ref('label_signals') }}
    where label_class = 'implicit'
),

feedback as (
    select * from {{ ref('int_feedback') }}
),

feedback_chunks as (
    select * from {{ ref('int_feedback_chunks') }}
),

qrels as (
    select * from {{ ref('stg_qrels') }}
),

feedback_votes as (
    select
        feedback_chunks.trace_id,
        feedback_chunks.traced_on,
        feedback.label_class,
        classes.relevant_from, classes.evidence_level,
        feedback_chunks.chunk_id,
        feedback.rater_id,
        -- each kind of implicit signal has its own say
        case when feedback.label_class = 'implicit' then feedback.signal end as signal,
        feedback.feedback_id as event_id,
        feedback.given_at as voted_at,
        feedback.is_answer_level,
        feedback.inclusion_probability,
        case
            when feedback.grade is not null then feedback.grade
            when feedback.rating_label = 'negative' then 0
            when feedback.rating_label = 'positive' and coalesce(
                    feedback.answer_correct, '{{ var("upvote_without_correctness") }}' = 'relevant'
                ) then classes.relevant_from
        end as grade,
        -- millionths, so that sums do not depend on their order
        round(1e6 * feedback.weight * case
            when feedback.grade is not null then case when feedback.grade >= classes.relevant_from then 1 else -1 end
            when signals.min_dwell_ms is not null and not coalesce(feedback.dwell_ms >= signals.min_dwell_ms, false)
                then 0
            when signals.weight is not null then signals.weight
            when feedback.rating_label = 'positive' then 1
            when feedback.rating_label = 'negative' then -1
            else 0
        end)::bigint as weight
    from feedback_chunks
    inner join feedback using (feedback_id)
    inner join classes using (label_class)
    left join signals using (signal)
),

query_votes as (
    select
        query_id,
        label_class,
        chunk_id,
        doc_id,
        classes.relevant_from, classes.evidence_level,
        labeller as rater_id,
        qrel_id as event_id,
        labelled_at as voted_at,
        false as is_answer_level,
        grade,
        case when grade >= classes.relevant_from then 1000000 else -1000000 end as weight
    from qrels
    inner join classes using (label_class)
),

votes as (
    select *, null::varchar as query_id, null::varchar as doc_id from feedback_votes
    union all by name
    select * from query_votes
)

select
    * exclude (evidence_level),
    case evidence_level
        when 'document' then coalesce(doc_id, {{ document_of('chunk_id') }})
        else coalesce(chunk_id, doc_id)
    end as evidence_id
from votes
where {{ is_before_as_of('voted_at') }}
