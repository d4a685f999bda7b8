-- Nothing is lost: every non-blank line of every landed file is staged, a duplicate, superseded or quarantined.
select *
from {{ ref('stg_landing_accounting') }}
where contract in ('{{ staged_contracts() | join("', '") }}')
    and n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined
