with reported as (
    select metric, grid, unnest(reported_k) as k from {{ ref('dim_metrics') }}
),

scores as (
    select * from {{ ref('fct_query_scores') }}
    where k in (select k from reported)
),

named as (
    select
        traced_on,
        trace_id,
        stage,
        label_class,
        completeness,
        n_relevant,
        k,
        judged as judged_share,
        unnest([
            {'metric': 'precision', 'score': precision},
            {'metric': 'precision_returned', 'score': precision_returned},
            {'metric': 'precision_low', 'score': precision_low},
            {'metric': 'precision_high', 'score': precision_high},
            {'metric': 'precision_condensed', 'score': precision_condensed},
            {'metric': 'recall', 'score': recall},
            {'metric': 'hit_rate', 'score': hit_rate},
            {'metric': 'reciprocal_rank', 'score': reciprocal_rank},
            {'metric': 'ndcg', 'score': ndcg},
            {'metric': 'ndcg_exp', 'score': ndcg_exp},
            {'metric': 'average_precision', 'score': average_precision},
            {'metric': 'r_precision', 'score': r_precision},
            {'metric': 'bpref', 'score': bpref},
            {'metric': 'judged', 'score': judged},
            {'metric': 'context_precision', 'score': context_precision},
            {'metric': 'context_recall', 'score': context_recall}
        ], recursive := true)
    from scores
)

select
    named.traced_on,
    named.trace_id,
    named.stage,
    named.label_class,
    named.completeness,
    named.n_relevant,
    named.metric,
    named.k,
    reported.grid,
    -- trillionths, so that sums do not depend on their order
    round(named.score * 1e12)::bigint as score,
    round(named.judged_share * 1e12)::bigint as judged_share
from named
inner join reported on named.metric = reported.metric and named.k = reported.k
