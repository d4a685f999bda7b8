-- A staged list is ranked 1 to n without gaps, and no chunk is in it twice: of the traces that changed last, as
-- those before were tested in their night.
with traces as (
    select trace_id, retrieved, candidates
    from {{ ref('stg_retrieval_traces') }}
    where changed_in_load = (select max(changed_in_load) from {{ ref('stg_retrieval_traces') }})
),

lists as (
    select trace_id, 'final' as stage, retrieved as chunks from traces
    union all
    select trace_id, 'retriever' as stage, candidates as chunks from traces
),

described as (
    select
        trace_id,
        stage,
        list_transform(chunks, lambda chunk: chunk.rank) as ranks,
        list_filter(list_transform(chunks, lambda chunk: chunk.chunk_id), lambda id: id is not null) as chunk_ids
    from lists
    where len(chunks) > 0
)

select *
from described
where ranks <> range(1, len(ranks) + 1)::integer[]
    or len(list_distinct(chunk_ids)) <> len(chunk_ids)
