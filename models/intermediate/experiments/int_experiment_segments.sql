with segments as (
    select distinct segment_dimension, segment_value
    from {{ ref('int_score_denominators') }}
    where starts_with(segment_dimension, 'experiment_id x experiment_bucket') and traffic = 'production'
),

parts as (
    select *, string_split(segment_dimension, ' x ') as dimensions, string_split(segment_value, ' x ') as segment_values
    from segments
)

select
    parts.segment_dimension as stored_dimension,
    parts.segment_value as stored_value,
    arms.experiment_id,
    arms.arm,
    arms.starts_on,
    arms.ends_on,
    -- what is left of the cross is the segment within the experiment
    coalesce(nullif(array_to_string(dimensions[3:], ' x '), ''), 'total') as segment_dimension,
    coalesce(nullif(array_to_string(segment_values[3:], ' x '), ''), 'total') as segment_value
from parts
inner join {{ ref('int_experiment_arms') }} as arms
    on parts.segment_values[1] = arms.experiment_id and parts.segment_values[2] = arms.arm
