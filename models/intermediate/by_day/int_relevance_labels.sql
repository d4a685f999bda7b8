with asked as (
    select trace_id, query_id, traced_on from {{ ref('int_traces') }}
    where query_id is not null and {{ is_affected('traced_on') }}
),

trace_labels as (
    select *, 'feedback' as label_source from {{ ref('int_label_verdicts') }}
    where traced_on is not null and grade is not null and {{ is_affected('traced_on') }}
),

query_labels as (
    -- a judgment of a query holds for every trace that asked it
    select asked.traced_on, asked.trace_id, verdicts.* exclude (traced_on, trace_id), 'qrels' as label_source
    from {{ ref('int_label_verdicts') }} as verdicts
    inner join asked on verdicts.query_id = asked.query_id
    where verdicts.traced_on is null and verdicts.grade is not null
),

labels as (
    select * from trace_labels
    union all by name
    -- what was said of this very trace goes before what is held of its query
    select query_labels.* from query_labels
    anti join trace_labels using (trace_id, label_class, evidence_id)
)

select
    traced_on,
    trace_id,
    label_class,
    evidence_id,
    grade,
    grade >= relevant_from as is_relevant,
    weight,
    n_raters,
    labelled_at,
    is_answer_level,
    inclusion_probability,
    label_source,
    {{ current_day_version() }} as day_version
from labels
