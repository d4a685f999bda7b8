-- Nothing is lost: every non-blank line of every landed file is staged, a duplicate, superseded or quarantined.
select *
from {{ ref('stg_landing_accounting') }}
where contract in ('{{ staged_contracts() | join("', '") }}')
    -- a file that changed was registered, and read whole, again
    and file_id in (
        select max(file_id) from {{ ref('stg_landing_files') }}
        group by path
    )
    and n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined
