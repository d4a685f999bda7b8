with retrievals as (
    select * from {{ ref('fct_retrievals') }}
),

sets as (
    select * from {{ ref('int_relevant_sets') }}
),

cutoffs as (
    {{ stage_cutoffs() }}
),

returned as (
    select traced_on, trace_id, stage, label_class, count(*)::integer as n_returned
    from {{ ref('int_judged_chunks') }}
    group by traced_on, trace_id, stage, label_class
),

lists as (
    -- every labelled trace has a list per stage that it logged, empty lists included
    select sets.*, cutoffs.stage, cutoffs.k, coalesce(returned.n_returned, 0) as n_returned
    from sets
    inner join retrievals using (trace_id, traced_on)
    inner join cutoffs
        on (cutoffs.stage = 'final' and not retrievals.is_fault)
        or (cutoffs.stage = 'retriever' and not retrievals.is_fault and retrievals.n_candidates is not null)
    left join returned
        on sets.traced_on = returned.traced_on
        and sets.trace_id = returned.trace_id
        and sets.label_class = returned.label_class
        and cutoffs.stage = returned.stage
)

select
    traced_on,
    trace_id,
    stage,
    label_class,
    k,
    completeness,
    n_relevant,
    n_returned,
    case when k = 0 then n_returned else k end as n_places,
    case when k = 0 then n_returned else least(k, n_returned) end as n_top,
    least(n_relevant, n_judged_non_relevant) as n_preferences,
    -- in a complete class a query with nothing relevant has nothing to find
    n_relevant > 0 or completeness <> 'complete' as is_answerable,
    {{ ideal_at('ideal_dcg') }} as ideal_dcg,
    {{ ideal_at('ideal_dcg_exp') }} as ideal_dcg_exp,
    day_version
from lists
