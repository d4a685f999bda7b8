with files as (
    select * from {{ ref('stg_landing_files') }}
),

accepted as (
    select * from {{ ref('stg_accepted_lines') }}
),

frozen as (
    select
        file_id,
        sum(n_lines) filter (where outcome = 'purged')::bigint as n_purged,
        sum(n_lines) filter (where outcome = 'too_late')::bigint as n_too_late
    from {{ ref('stg_frozen_lines') }}
    group by file_id
),

quarantined as (
    select file_id, count(*) as n_quarantined
    from {{ ref('stg_quarantine') }}
    group by file_id
)

select
    files.file_id,
    files.contract,
    files.path,
    files.load_id,
    files.n_lines,
    coalesce(accepted.n_staged, 0) as n_staged,
    coalesce(accepted.n_duplicates, 0) as n_duplicates,
    coalesce(accepted.n_superseded, 0) as n_superseded,
    coalesce(quarantined.n_quarantined, 0) as n_quarantined,
    coalesce(frozen.n_purged, 0) as n_purged,
    coalesce(frozen.n_too_late, 0) as n_too_late,
    coalesce(quarantined.n_quarantined, 0) / nullif(files.n_lines, 0) as quarantined_share,
    -- keys that the contract does not know, with the lines they are on: ignored, but counted
    map_from_entries(list_filter(
        map_entries(files.key_counts),
        lambda entry: not list_contains({{ known_keys('files.contract') }}, entry.key)
    )) as unknown_keys
from files
left join accepted using (file_id)
left join quarantined using (file_id)
left join frozen using (file_id)
