-- Nothing is lost: every non-blank line of every landed file is staged, a duplicate, superseded,
-- quarantined, purged, or too late for a purged day.
with accounting as (
    select *, n_staged + n_duplicates + n_superseded + n_quarantined + n_purged + n_too_late as n_accounted
    from {{ ref('stg_landing_accounting') }}
    -- a file that changed was registered, and read whole, again
    where file_id in (
            select max(file_id) from {{ ref('stg_landing_files') }}
            group by path
        )
),

on_disk as (
    select
        right(filename, -length('{{ landing_path() }}/')) as path,
        size as size_bytes,
        last_modified at time zone 'UTC' as modified_at
    from read_blob('{{ landing_path() }}/*/**')
),

grown as (
    -- lines that came while the night was reading: the next one registers the file as it is then
    select files.file_id
    from {{ ref('stg_landing_files') }} as files
    inner join on_disk using (path)
    where (files.size_bytes, files.modified_at) <> (on_disk.size_bytes, on_disk.modified_at)
)

select accounting.*
from accounting
left join grown using (file_id)
where accounting.contract in ('{{ staged_contracts() | join("', '") }}')
    and case when grown.file_id is null then n_accounted <> n_lines else n_accounted < n_lines end
