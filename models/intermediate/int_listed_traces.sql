with traces as (
    select
        traced_on, traffic, session_id, trace_id, weight, segment_key,
        segments.intent,
        unnest(['final', 'retriever']) as stage,
        unnest([n_returned, n_candidates]) as n_listed
    from {{ ref('int_segmented_traces') }}
    where not is_fault
),

listed as (
    select *, min(segment_key) over session_day = max(segment_key) over session_day as is_uniform
    from traces
    where n_listed is not null
    window session_day as (partition by traced_on, traffic, session_id, stage)
),

members as (
    -- as in int_score_units: a session whose traces share all segment values is one unit in each of them
    select * exclude (is_uniform), null::varchar as segment_dimension, null::varchar as segment_value
    from listed
    where is_uniform
    union all by name
    select listed.* exclude (is_uniform, segment_key), segments.segment_dimension, segments.segment_value
    from listed
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
    where not listed.is_uniform
)

select
    * exclude (weight),
    max(weight) over unit as unit_weight,
    -- the unit's weight in equal parts
    round(max(weight) over unit / count(*) over unit)::bigint as trace_weight,
    row_number() over (unit order by trace_id) = 1 as is_first_of_unit
from members
window unit as (
    partition by traced_on, traffic, segment_key, segment_dimension, segment_value, session_id, stage
)
