with checks as (
    select * from {{ ref('stg_landing_checks') }}
),

newest as (
    select max(checked_at) as newest_checked_at from checks
)

select
    checks.check_id,
    checks.check_run_id,
    checks.checked_at,
    checks.checked_at = newest.newest_checked_at as is_newest,
    checks.contract,
    checks.expectation_id,
    checks.column_name,
    checks.severity,
    checks.outcome,
    checks.message,
    checks.observed,
    checks.minimum,
    checks.maximum,
    checks.n_rows,
    checks.n_sampled,
    checks.n_failed,
    checks.examples
from checks
cross join newest
