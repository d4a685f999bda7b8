with combinations as (
    -- traces by the thousand share few combinations of segment values
    select traced_on, segment_key, to_json(any_value(segments)) as segments
    from {{ ref('int_described_traces') }}
    where {{ is_affected('traced_on') }}
    group by traced_on, segment_key
),

declared as (
    select *, unnest(['total'] || {{ var('segment_dimensions') }}) as segment_dimension
    from combinations
)

select
    traced_on,
    segment_key,
    segment_dimension,
    case segment_dimension
        when 'total' then 'total'
        -- a cross is written 'intent x index_version'; a name nobody knows is an error, not an empty segment
        else array_to_string(list_transform(
                string_split(segment_dimension, ' x '),
                lambda name: coalesce(segments ->> name, error('vars: segment_dimensions: unknown dimension ' || name))
            ), ' x ')
    end as segment_value,
    {{ current_day_version() }} as day_version
from declared
