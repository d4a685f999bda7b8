with traces as (
    select
        coalesce(max(traced_at) filter (where traffic = 'production'), max(traced_at)) as newest_traced_at
    from {{ ref('fct_retrievals') }}
    where not is_missing
)

select
    as_of,
    as_of::date as full_days_end_on,
    date_trunc('hour', as_of) as full_hours_end_at
from (
    select case when isfinite({{ known_until() }}) then {{ known_until() }} else newest_traced_at end as as_of
    from traces
)
where as_of is not null
