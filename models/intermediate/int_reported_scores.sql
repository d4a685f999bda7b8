with reported as (
    select metric, grid, unnest(reported_k) as k from {{ ref('dim_metrics') }}
),

scores as (
    select * from {{ ref('fct_query_scores') }}
),

named as (
    select
        scores.traced_on,
        scores.trace_id,
        scores.stage,
        scores.label_class,
        scores.n_relevant,
        reported.metric,
        scores.k,
        reported.grid,
        scores.judged as judged_share,
        case reported.metric
            when 'precision' then scores.precision
            when 'precision_returned' then scores.precision_returned
            when 'precision_low' then scores.precision_low
            when 'precision_high' then scores.precision_high
            when 'precision_condensed' then scores.precision_condensed
            when 'recall' then scores.recall
            when 'hit_rate' then scores.hit_rate
            when 'reciprocal_rank' then scores.reciprocal_rank
            when 'ndcg' then scores.ndcg
            when 'ndcg_exp' then scores.ndcg_exp
            when 'average_precision' then scores.average_precision
            when 'r_precision' then scores.r_precision
            when 'bpref' then scores.bpref
            when 'judged' then scores.judged
            when 'context_precision' then scores.context_precision
            when 'context_recall' then scores.context_recall
            else error('metric_catalog: ' || reported.metric || ' is no column of fct_query_scores')
        end as score
    from scores
    inner join reported on scores.k = reported.k
)

select
    * exclude (score, judged_share),
    -- trillionths, so that sums do not depend on their order
    round(score * 1e12)::bigint as score,
    round(judged_share * 1e12)::bigint as judged_share
from named
