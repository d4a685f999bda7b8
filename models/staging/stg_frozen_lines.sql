-- filled by `retrieval-quality purge` and by every staging model as it settles its deliveries
select
    null::integer as file_id,
    null::varchar as outcome,
    null::bigint as n_lines
where false
