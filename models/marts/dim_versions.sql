with retrievals as (
    select * from {{ ref('fct_retrievals') }}
    where not is_missing
)

select
    traffic,
    index_version,
    embedding_model,
    chunker_version,
    reranker_version,
    prompt_version,
    min(traced_at) as first_seen_at,
    max(traced_at) as last_seen_at,
    count(*) as n_traces
from retrievals
group by traffic, index_version, embedding_model, chunker_version, reranker_version, prompt_version
