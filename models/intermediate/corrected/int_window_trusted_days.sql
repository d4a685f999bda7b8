select
    windows.window_name,
    windows.window_start_at,
    windows.window_end_at,
    days.traced_on,
    days.traffic,
    days.trusted_class
from {{ ref('int_windows') }} as windows
inner join {{ ref('int_trusted_days') }} as days
    on days.traced_on >= windows.window_start_at and days.traced_on < windows.window_end_at
where windows.window_name <> 'rolling_24h'
