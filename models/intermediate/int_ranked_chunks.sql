with traces as (
    select traced_on, trace_id, retrieved, candidates from {{ ref('int_traces') }}
),

judgeable as (
    -- only what some label can judge is exploded: at 5 to 20 % label coverage that is most of the cost
    select traces.* from traces
    semi join {{ ref('int_relevant_sets') }} as sets
        on traces.trace_id = sets.trace_id and traces.traced_on = sets.traced_on
),

exploded as (
    select traced_on, trace_id, 'final' as stage, unnest(retrieved) as chunk from judgeable
    union all
    select traced_on, trace_id, 'retriever' as stage, unnest(candidates) as chunk from judgeable
)

select
    traced_on,
    trace_id,
    stage,
    chunk.rank,
    chunk.chunk_id,
    {{ document_of('chunk.chunk_id') }} as doc_id,
    chunk.score
from exploded
where chunk.rank <= {{ var('max_rank') }}
