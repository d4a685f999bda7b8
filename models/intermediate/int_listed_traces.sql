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
    select * from traces
    where n_listed is not null
),

session_days as (
    select
        traced_on, traffic, session_id, stage,
        max(weight) as unit_weight,
        count(*) as n_traces,
        min(trace_id) as first_trace_id,
        min(segment_key) = max(segment_key) as is_uniform
    from listed
    group by traced_on, traffic, session_id, stage
),

uniform as (
    -- as in int_score_units: a session whose traces share all segment values is one unit in each of them
    select
        listed.* exclude (weight),
        null::varchar as segment_dimension,
        null::varchar as segment_value,
        session_days.unit_weight,
        session_days.n_traces,
        listed.trace_id = session_days.first_trace_id as is_first_of_unit
    from listed
    inner join session_days using (traced_on, traffic, session_id, stage)
    where session_days.is_uniform
),

mixed as (
    select
        listed.* exclude (weight, segment_key),
        segments.segment_dimension,
        segments.segment_value,
        max(listed.weight) over unit as unit_weight,
        count(*) over unit as n_traces,
        row_number() over (unit order by listed.trace_id) = 1 as is_first_of_unit
    from listed
    inner join session_days using (traced_on, traffic, session_id, stage)
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
    where not session_days.is_uniform
    window unit as (
        partition by
            listed.traced_on, listed.traffic, listed.session_id, listed.stage,
            segments.segment_dimension, segments.segment_value
    )
)

select
    * exclude (n_traces),
    -- the unit's weight in equal parts
    round(unit_weight / n_traces)::bigint as trace_weight
from uniform
union all by name
select
    * exclude (n_traces),
    round(unit_weight / n_traces)::bigint as trace_weight
from mixed
