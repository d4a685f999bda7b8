with audited as (
    select days.traced_on, days.traffic
    from {{ ref('int_trusted_days') }} as days
    semi join {{ ref('int_corrections') }} as pairs
        on days.trusted_class = pairs.trusted_class and pairs.is_zero_without_signal
    where {{ is_affected('days.traced_on') }}
),

traces as (
    select
        traced_on, traffic, session_id,
        {
            'segment_key': segment_key,
            'weight': weight,
            'has_final': n_returned is not null,
            'has_retriever': n_candidates is not null
        } as trace
    from {{ ref('int_segmented_traces') }}
    semi join audited using (traced_on, traffic)
    where not is_fault and {{ is_affected('traced_on') }}
),

sessions as (
    select traced_on, traffic, list_sort(list(trace)) as traces
    from traces
    group by traced_on, traffic, session_id
),

alike as (
    -- sessions by the thousand share few lists of traces: these are spread over segments, not the sessions
    select traced_on, traffic, traces, count(*) as n_units
    from sessions
    group by traced_on, traffic, traces
),

kinds as (
    -- nor does it matter how often a session repeats itself
    select traced_on, traffic, list_sort(list_distinct(traces)) as traces, sum(n_units) as n_units
    from alike
    group by all
),

members as (
    select *, unnest(traces) as trace from kinds
),

listed as (
    select
        * exclude (trace), trace.segment_key, trace.weight,
        unnest(['final', 'retriever']) as stage,
        unnest([trace.has_final, trace.has_retriever]) as has_list
    from members
),

units as (
    select
        listed.traced_on, listed.traffic, segments.segment_dimension, segments.segment_value, listed.stage,
        listed.traces,
        any_value(listed.n_units) as n_units,
        max(listed.weight) as unit_weight
    from listed
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
    where listed.has_list
    group by all
)

select
    traced_on, traffic, segment_dimension, segment_value, stage,
    sum(n_units)::bigint as n_units,
    sum(n_units * unit_weight)::bigint as weight_sum,
    sum(n_units * unit_weight::hugeint * unit_weight)::hugeint as weight_square_sum,
    {{ current_day_version() }} as day_version
from units
group by traced_on, traffic, segment_dimension, segment_value, stage
