with answers as (
    select eval_run_id, query_id, candidates is not null as has_candidates from {{ ref('stg_retrieval_traces') }}
    union all
    -- answered on a day that is purged, and answered all the same
    select eval_run_id, query_id, has_candidates from {{ ref('stg_purged_rows') }}
)

select eval_run_id, list(distinct query_id) as query_ids, bool_or(has_candidates) as has_candidates
from answers
where eval_run_id is not null
group by eval_run_id
