with traces as (
    select
        time_grain, traced_on, bucket_at, traffic, segment_key, is_fault, is_missing,
        unnest(['final', 'retriever']) as stage,
        unnest([n_returned, n_candidates]) as n_listed,
        unnest([n_duplicates, n_candidate_duplicates]) as n_duplicates
    from {{ ref('int_bucketed_traces') }}
),

combinations as (
    select
        time_grain, traced_on, bucket_at, traffic, segment_key, stage,
        count(*) as n_traces,
        count(*) filter (where is_fault) as n_fault,
        count(*) filter (where not is_fault and n_listed is null) as n_stage_absent,
        count(*) filter (where n_listed = 0 and not is_missing) as n_no_results,
        count(*) filter (where is_missing) as n_missing,
        coalesce(sum(n_duplicates), 0)::bigint as n_duplicates
    from traces
    group by time_grain, traced_on, bucket_at, traffic, segment_key, stage
)

select
    combinations.time_grain,
    combinations.traced_on,
    combinations.bucket_at,
    combinations.traffic,
    segments.segment_dimension,
    segments.segment_value,
    combinations.stage,
    sum(combinations.n_traces)::bigint as n_traces,
    sum(combinations.n_fault)::bigint as n_fault,
    sum(combinations.n_stage_absent)::bigint as n_stage_absent,
    sum(combinations.n_no_results)::bigint as n_no_results,
    sum(combinations.n_missing)::bigint as n_missing,
    sum(combinations.n_duplicates)::bigint as n_duplicates
from combinations
inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
group by
    combinations.time_grain, combinations.traced_on, combinations.bucket_at, combinations.traffic,
    segments.segment_dimension, segments.segment_value, combinations.stage
