-- filled by `retrieval-quality purge`, and never rebuilt: what it names does not come back from a landing file
select
    null::varchar as model,
    null::varchar as row_key,
    null::varchar as session_id,
    null::varchar as eval_run_id,
    null::varchar as query_id,
    null::boolean as has_candidates,
    null::date as happened_on
where false
