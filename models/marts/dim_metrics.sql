with catalog as (
    select * from {{ ref('metric_catalog') }}
)

select
    metric,
    family,
    definition,
    range_low::double as range_low,
    range_high::double as range_high,
    direction,
    needs,
    grid::double as grid,
    list_sort(list_transform(
        list_filter(string_split(coalesce(reported_k::varchar, ''), '|'), lambda k: k <> ''),
        lambda k: k::integer
    )) as reported_k
from catalog
