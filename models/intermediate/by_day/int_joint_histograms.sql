with units as (
    select * from {{ ref('int_score_units') }}
    where time_grain = 'day' and {{ is_affected('traced_on') }}
        -- defined for every list, and told by judgments of its top k
        and metric in ('precision', 'hit_rate', 'reciprocal_rank', 'context_precision')
        and score is not null
),

inclusion as (
    select
        traces.traced_on, traces.traffic, traces.session_id, labels.label_class,
        -- the chance of the session-day: where it was drawn as a whole, all of its labels say the same
        max(labels.inclusion_probability) as inclusion_probability
    from {{ ref('int_relevance_labels') }} as labels
    inner join {{ ref('fct_retrievals') }} as traces
        on labels.traced_on = traces.traced_on and labels.trace_id = traces.trace_id
    where labels.inclusion_probability is not null
        and {{ is_affected('labels.traced_on') }} and {{ is_affected('traces.traced_on') }}
    group by traces.traced_on, traces.traffic, traces.session_id, labels.label_class
),

trusted as (
    select units.*, pairs.trusted_class, pairs.cheap_class, pairs.is_zero_without_signal
    from units
    inner join {{ ref('int_corrections') }} as pairs on units.label_class = pairs.trusted_class
),

cells as (
    select
        trusted.traced_on, trusted.traffic, trusted.segment_key, trusted.segment_dimension, trusted.segment_value,
        trusted.stage, trusted.metric, trusted.k, trusted.grid, trusted.trusted_class, trusted.cheap_class,
        trusted.score as trusted_score,
        cheap.score as cheap_score,
        coalesce(inclusion.inclusion_probability, 1) as inclusion_probability,
        coalesce(cheap.weight, trusted.weight) as unit_weight,
        count(*) as n_units
    from trusted
    left join units as cheap
        on trusted.cheap_class = cheap.label_class
        and trusted.traced_on = cheap.traced_on and trusted.traffic = cheap.traffic
        and trusted.session_id = cheap.session_id
        and trusted.segment_key is not distinct from cheap.segment_key
        and trusted.segment_dimension is not distinct from cheap.segment_dimension
        and trusted.segment_value is not distinct from cheap.segment_value
        and trusted.stage = cheap.stage and trusted.metric = cheap.metric and trusted.k = cheap.k
    left join inclusion
        on trusted.traced_on = inclusion.traced_on and trusted.traffic = inclusion.traffic
        and trusted.session_id = inclusion.session_id and trusted.label_class = inclusion.label_class
    where cheap.score is not null or trusted.is_zero_without_signal
    group by all
),

spread as (
    select * exclude (segment_key)
    from cells
    where segment_key is null
    union all by name
    select
        cells.* exclude (segment_key, segment_dimension, segment_value),
        segments.segment_dimension, segments.segment_value
    from cells
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
)

select
    traced_on, traffic, segment_dimension, segment_value, stage, metric, k, grid, trusted_class, cheap_class,
    trusted_score, cheap_score, inclusion_probability, unit_weight,
    sum(n_units)::bigint as n_units,
    {{ current_day_version() }} as day_version
from spread
group by all
