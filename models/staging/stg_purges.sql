-- filled by `retrieval-quality purge`, and never rebuilt: without it purged days would come back
select
    null::date as purged_until,
    null::timestamp as as_of,
    null::integer as retention_days
where false
