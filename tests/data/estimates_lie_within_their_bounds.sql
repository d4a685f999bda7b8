-- A published estimate lies within its interval and within the bounds that decide, which have a width; where
-- nothing was scored there is none.
select *
from {{ ref('mart_retrieval_quality') }}
where (estimate is null) <> (n_units = 0)
    or (estimate is not null and not coalesce(
        estimate between bound_low and bound_high
        and estimate between ci_low and ci_high
        and bound_low < bound_high
        and n_eff <= n_units * (1 + 1e-9),
        false
    ))
    or not coalesce(0 <= bound_low and bound_high <= 1 and estimate_low <= estimate_high + 1e-12, false)
