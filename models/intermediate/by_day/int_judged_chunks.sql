with ranked as (
    select * from {{ ref('int_ranked_chunks') }}
    where {{ is_affected('traced_on') }}
),

sets as (
    select * from {{ ref('int_relevant_sets') }}
    where {{ is_affected('traced_on') }}
),

labels as (
    select * from {{ ref('int_relevance_labels') }}
    where {{ is_affected('traced_on') }}
),

chunk_evidence as (
    select ranked.*, sets.label_class, ranked.chunk_id as evidence_id
    from ranked
    inner join sets using (trace_id)
    where sets.evidence_level = 'chunk'
),

first_of_document as (
    -- at document level the list is the list of documents: each at its first chunk
    select ranked.*, sets.label_class, ranked.doc_id as evidence_id
    from ranked
    inner join sets using (trace_id)
    where sets.evidence_level = 'document'
    qualify ranked.doc_id is null or row_number() over (
            partition by ranked.trace_id, ranked.stage, sets.label_class, ranked.doc_id order by ranked.rank
        ) = 1
),

evidence as (
    select * from chunk_evidence
    union all by name
    select
        * replace (
            row_number() over (partition by trace_id, stage, label_class order by rank)::integer as rank
        )
    from first_of_document
)

select
    evidence.traced_on,
    evidence.trace_id,
    evidence.stage,
    evidence.label_class,
    evidence.rank,
    evidence.chunk_id,
    evidence.evidence_id,
    labels.grade,
    labels.is_relevant,
    {{ current_day_version() }} as day_version
from evidence
left join labels
    on evidence.trace_id = labels.trace_id
    and evidence.label_class = labels.label_class
    and evidence.evidence_id = labels.evidence_id
