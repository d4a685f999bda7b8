with version_days as (
    select * from {{ ref('int_version_days') }}
)

select
    traffic,
    index_version,
    embedding_model,
    chunker_version,
    reranker_version,
    prompt_version,
    min(first_seen_at) as first_seen_at,
    max(last_seen_at) as last_seen_at,
    sum(n_traces)::bigint as n_traces
from version_days
group by traffic, index_version, embedding_model, chunker_version, reranker_version, prompt_version
