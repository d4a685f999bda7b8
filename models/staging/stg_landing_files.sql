with landed as (
    select
        filename as path_to_read,
        right(filename, -length('{{ landing_path() }}/')) as path,
        size as size_bytes,
        last_modified at time zone 'UTC' as modified_at
    from read_blob('{{ landing_path() }}/*/**')
    where list_contains(getvariable('rq_new_files'), filename)
),

json_lines as (
    -- the keys of a line are few lists over many lines: one pass counts lines and keys
    select landed_from as path_to_read, json_keys(json) as keys, count(*) as n_lines
    from read_json_objects(
            getvariable('rq_json_files'),
            format = 'newline_delimited', ignore_errors = true, filename = 'landed_from', maximum_object_size = 67108864
        )
    group by all
),

keys as (
    select path_to_read, unnest(keys) as key, n_lines from json_lines
),

json_keys as (
    select path_to_read, map_from_entries(list((key, n_lines) order by key)) as key_counts
    from (
        select path_to_read, key, sum(n_lines)::bigint as n_lines
        from keys
        group by path_to_read, key
    )
    group by path_to_read
),

json_files as (
    select
        json_lines.path_to_read,
        sum(json_lines.n_lines)::bigint as n_lines,
        any_value(json_keys.key_counts) as key_counts
    from json_lines
    left join json_keys using (path_to_read)
    group by json_lines.path_to_read
),

parquet_files as (
    select landed_from as path_to_read, count(*) as n_lines
    from read_parquet(getvariable('rq_parquet_files'), filename = 'landed_from', union_by_name = true)
    group by landed_from
),

files as (
    select
        split_part(landed.path, '/', 1) as contract,
        landed.path,
        landed.path_to_read,
        case when landed.path like '%.parquet' then 'parquet' else 'json' end as file_format,
        landed.size_bytes,
        landed.modified_at,
        coalesce(json_files.n_lines, parquet_files.n_lines, 0) as n_lines,
        json_files.key_counts
    from landed
    left join json_files using (path_to_read)
    left join parquet_files using (path_to_read)
    union all by name
    select *, path as path_to_read, 'relation' as file_format from ({{ unregistered_relation_days() }})
)

select
    {{ highest('file_id') }} + row_number() over (order by path)::integer as file_id,
    {{ highest('load_id') }} + 1 as load_id,
    *
from files
