-- filled by every model that is replaced by day, in the transaction of its rows
select
    null::varchar as model,
    null::integer as day_version
where false
