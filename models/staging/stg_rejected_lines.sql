-- filled by every staging model as it settles its deliveries: only there is the place of a line known
select
    null::integer as file_id,
    null::integer as load_id,
    null::varchar as path_to_read,
    null::bigint as line_place,
    null::varchar as reject_reason,
    null::varchar as rejected_text
where false
