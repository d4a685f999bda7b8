with labels as (
    select * from {{ ref('int_relevance_labels') }}
    where {{ is_affected('traced_on') }}
),

classes as (
    select * from {{ ref('label_classes') }}
),

ideal_order as (
    -- the best list possible, over all judged evidence and not only what was retrieved
    select
        trace_id, label_class,
        row_number() over best_first as rank,
        sum({{ gain('grade') }} * discounts.discount) over best_first as ideal_dcg,
        sum({{ gain_exp('grade') }} * discounts.discount) over best_first as ideal_dcg_exp
    from (
        select *, row_number() over (partition by trace_id, label_class order by grade desc) as rank
        from labels
        where grade > 0
    )
    inner join {{ ref('rank_discounts') }} as discounts using (rank)
    window best_first as (partition by trace_id, label_class order by rank)
),

ideals as (
    select
        trace_id, label_class,
        list(ideal_dcg order by rank) as ideal_dcg,
        list(ideal_dcg_exp order by rank) as ideal_dcg_exp
    from ideal_order
    group by trace_id, label_class
),

counted as (
    select
        traced_on, trace_id, label_class,
        count(*) filter (where is_relevant)::integer as n_relevant,
        -- trec_eval's bpref takes a negative grade for unjudged
        count(*) filter (where not is_relevant and grade >= 0)::integer as n_judged_non_relevant,
        max(labelled_at) as labelled_at
    from labels
    group by traced_on, trace_id, label_class
)

select
    counted.traced_on,
    counted.trace_id,
    counted.label_class,
    classes.completeness,
    classes.evidence_level,
    counted.n_relevant,
    counted.n_judged_non_relevant,
    ideals.ideal_dcg,
    ideals.ideal_dcg_exp,
    counted.labelled_at,
    {{ current_day_version() }} as day_version
from counted
inner join classes using (label_class)
left join ideals using (trace_id, label_class)
