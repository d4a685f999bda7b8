with traces as (
    select * from {{ ref('int_trace_counts') }}
),

reported as (
    select metric, unnest(reported_k) as k from {{ ref('dim_metrics') }}
),

classes as (
    select * from {{ ref('dim_label_classes') }}
    where label_class <> 'pooled'
),

cutoffs as (
    {{ stage_cutoffs() }}
),

stages as (
    select cutoffs.stage, reported.metric, reported.k
    from reported
    inner join cutoffs on reported.k = cutoffs.k
),

scored as (
    select
        time_grain, traced_on, bucket_at, traffic, segment_dimension, segment_value, stage, label_class, metric, k,
        sum(n_scored)::bigint as n_scored,
        sum(n_no_relevant)::bigint as n_no_relevant,
        sum(n_undefined)::bigint as n_undefined,
        sum(n_units)::bigint as n_units,
        sum(weight)::hugeint as weight_sum,
        sum(weight_square_sum)::hugeint as weight_square_sum,
        sum(judged_sum)::hugeint as judged_sum,
        sum(n_judged_defined)::bigint as n_judged_defined
    from {{ ref('int_segment_cells') }}
    group by time_grain, traced_on, bucket_at, traffic, segment_dimension, segment_value, stage, label_class, metric, k
)

select
    traces.* exclude (n_duplicates, n_no_results, n_missing),
    classes.label_class,
    classes.completeness,
    stages.metric,
    stages.k,
    coalesce(scored.n_scored, 0) as n_scored,
    coalesce(scored.n_no_relevant, 0) as n_no_relevant,
    coalesce(scored.n_undefined, 0) as n_undefined,
    traces.n_traces - traces.n_fault - traces.n_stage_absent - coalesce(
        scored.n_scored + scored.n_no_relevant + scored.n_undefined, 0
    ) as n_unlabelled,
    traces.n_no_results,
    traces.n_duplicates,
    traces.n_missing,
    coalesce(scored.n_units, 0) as n_units,
    coalesce(scored.weight_sum, 0) as weight_sum,
    coalesce(scored.weight_square_sum, 0) as weight_square_sum,
    coalesce(scored.judged_sum, 0) as judged_sum,
    coalesce(scored.n_judged_defined, 0) as n_judged_defined
from traces
inner join stages using (stage)
cross join classes
left join scored using (
    time_grain, traced_on, bucket_at, traffic, segment_dimension, segment_value, stage, label_class, metric, k
)
