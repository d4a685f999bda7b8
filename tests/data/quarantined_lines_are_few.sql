-- A share of bad lines above var max_quarantined_share in what the newest load landed of a contract (100 lines or
-- more) fails the night: something upstream broke, and what is missing would look like less traffic.
select
    contract,
    sum(n_lines) as n_lines,
    sum(n_quarantined) as n_quarantined,
    sum(n_quarantined) / sum(n_lines) as quarantined_share
from {{ ref('stg_landing_accounting') }}
where load_id = (select max(load_id) from {{ ref('stg_landing_files') }})
group by contract
having sum(n_lines) >= 100
    and sum(n_quarantined) / sum(n_lines) > {{ var('max_quarantined_share') }}
