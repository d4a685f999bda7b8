-- The metrics of dim_metrics are the metric columns of fct_query_scores, and no others.
with declared as (
    select metric from {{ ref('dim_metrics') }}
),

columns_of_scores as (
    select column_name as metric
    from information_schema.columns
    where table_catalog = '{{ ref("fct_query_scores").database }}'
        and table_schema = '{{ ref("fct_query_scores").schema }}'
        and table_name = '{{ ref("fct_query_scores").identifier }}'
        and column_name not in (
            'trace_id', 'traced_on', 'stage', 'label_class', 'k', 'completeness', 'n_relevant', 'n_returned',
            'n_judged', 'n_hits', 'day_version'
        )
)

select declared.metric as declared_metric, columns_of_scores.metric as metric_column
from declared
full join columns_of_scores using (metric)
where declared.metric is null or columns_of_scores.metric is null
