with labelled as (
    select traced_on, trace_id, label_class from {{ ref('int_relevant_sets') }}
    where {{ is_affected('traced_on') }}
),

traces as (
    select traced_on, trace_id, traffic from {{ ref('int_segmented_traces') }}
    where {{ is_affected('traced_on') }}
)

select distinct
    traces.traced_on,
    traces.traffic,
    labelled.label_class as trusted_class,
    {{ current_day_version() }} as day_version
from labelled
semi join {{ ref('int_corrections') }} as pairs on labelled.label_class = pairs.trusted_class
inner join traces using (traced_on, trace_id)
