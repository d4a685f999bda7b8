with retrievals as (
    select * from {{ ref('fct_retrievals') }}
    where not is_missing and {{ is_affected('traced_on') }}
)

select
    traced_on,
    traffic,
    index_version,
    embedding_model,
    chunker_version,
    reranker_version,
    prompt_version,
    min(traced_at) as first_seen_at,
    max(traced_at) as last_seen_at,
    count(*) as n_traces,
    {{ current_day_version() }} as day_version
from retrievals
group by traced_on, traffic, index_version, embedding_model, chunker_version, reranker_version, prompt_version
