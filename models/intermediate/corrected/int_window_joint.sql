select
    windows.window_name,
    windows.window_start_at,
    windows.window_end_at,
    cells.traffic,
    cells.segment_dimension,
    cells.segment_value,
    cells.stage,
    cells.trusted_class,
    cells.cheap_class,
    cells.metric,
    cells.k,
    cells.grid,
    cells.trusted_score,
    cells.cheap_score,
    cells.inclusion_probability,
    cells.unit_weight,
    sum(cells.n_units)::bigint as n_units
from {{ ref('int_windows') }} as windows
inner join {{ ref('int_joint_histograms') }} as cells
    on cells.traced_on >= windows.window_start_at and cells.traced_on < windows.window_end_at
where windows.window_name <> 'rolling_24h'
group by all
