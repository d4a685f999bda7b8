select
    judged.traced_on,
    judged.trace_id,
    judged.rank,
    judged.evidence_id,
    labels.is_answer_level
from {{ ref('int_judged_chunks') }} as judged
inner join {{ ref('int_relevance_labels') }} as labels
    on judged.traced_on = labels.traced_on
    and judged.trace_id = labels.trace_id
    and judged.label_class = labels.label_class
    and judged.evidence_id = labels.evidence_id
where judged.stage = 'final' and judged.label_class = 'implicit' and judged.is_relevant
