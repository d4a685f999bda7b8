with judged as (
    {{ judged_lines() }}
),

placed as (
    select
        path_to_read,
        line_place - min(line_place) over (partition by path_to_read) + 1 as line_place,
        reject_reason
    from judged
),

files as (
    -- a file that changed is registered again: its lines belong to the newest registration
    select path_to_read, max(file_id) as file_id, max(load_id) as load_id
    from {{ ref('stg_landing_files') }}
    group by path_to_read
)

select
    files.file_id,
    files.load_id,
    placed.path_to_read,
    placed.line_place::bigint as line_place,
    placed.reject_reason
from placed
inner join files using (path_to_read)
where placed.reject_reason is not null
