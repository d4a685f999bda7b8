-- marked by every staging model before it inserts rows, and unmarked when they are settled
select
    null::varchar as model,
    null::integer as settled_load_id
where false
