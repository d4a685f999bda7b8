with lists as (
    select * from {{ ref('int_scored_lists') }}
    where {{ is_affected('traced_on') }}
),

places as (
    select
        trace_id, stage, label_class, rank, grade, is_relevant,
        count(*) filter (where is_relevant) over best_first as n_relevant_so_far,
        count(*) filter (where not is_relevant and grade >= 0) over best_first as n_non_relevant_so_far
    from {{ ref('int_judged_chunks') }}
    where grade is not null and {{ is_affected('traced_on') }}
    window best_first as (partition by trace_id, stage, label_class order by rank)
),

sums as (
    -- integers only, so that no sum depends on its order; precision at a rank in 1e-15
    select
        lists.trace_id, lists.stage, lists.label_class, lists.k,
        count(places.rank) as n_judged,
        count(*) filter (where places.is_relevant) as n_hits,
        min(places.rank) filter (where places.is_relevant) as first_hit_rank,
        count(*) filter (where places.is_relevant and places.rank <= lists.n_relevant) as n_hits_in_r,
        sum({{ gain('places.grade') }} * discounts.discount) as dcg,
        sum({{ gain_exp('places.grade') }} * discounts.discount) as dcg_exp,
        sum((places.n_relevant_so_far * 1000000000000000 + places.rank // 2) // places.rank)
        filter (where places.is_relevant) as precision_sum,
        sum(greatest(lists.n_preferences - places.n_non_relevant_so_far, 0))
        filter (where places.is_relevant) as n_preferred
    from lists
    left join places
        on lists.trace_id = places.trace_id
        and lists.stage = places.stage
        and lists.label_class = places.label_class
        and (lists.k = 0 or places.rank <= lists.k)
    left join {{ ref('rank_discounts') }} as discounts
        on places.rank = discounts.rank
    group by lists.trace_id, lists.stage, lists.label_class, lists.k
)

select
    lists.trace_id, lists.traced_on, lists.stage, lists.label_class, lists.k,
    lists.completeness, lists.n_relevant, lists.n_returned,
    sums.n_judged::integer as n_judged,
    sums.n_hits::integer as n_hits,
    coalesce(sums.n_hits / nullif(lists.n_places, 0), 0.0) as precision,
    sums.n_hits / nullif(lists.n_top, 0) as precision_returned,
    precision as precision_low,
    coalesce((sums.n_hits + lists.n_top - sums.n_judged) / nullif(lists.n_places, 0), 0.0) as precision_high,
    sums.n_hits / nullif(sums.n_judged, 0) as precision_condensed,
    sums.n_hits / nullif(lists.n_relevant, 0) as recall,
    case when lists.is_answerable then (sums.n_hits > 0)::integer::double end as hit_rate,
    case when lists.is_answerable then coalesce(1 / sums.first_hit_rank, 0.0) end as reciprocal_rank,
    coalesce(sums.dcg, 0)::double / lists.ideal_dcg as ndcg,
    coalesce(sums.dcg_exp, 0)::double / lists.ideal_dcg_exp as ndcg_exp,
    coalesce(sums.precision_sum, 0)::double / (1e15 * nullif(lists.n_relevant, 0)) as average_precision,
    case when lists.k = 0 then sums.n_hits_in_r / nullif(lists.n_relevant, 0) end as r_precision,
    case
        when lists.k = 0 and lists.n_preferences > 0
            then coalesce(sums.n_preferred, 0) / (lists.n_preferences * lists.n_relevant)
        when lists.k = 0 then recall
    end as bpref,
    sums.n_judged / nullif(lists.n_top, 0) as judged,
    coalesce(sums.precision_sum::double / (1e15 * nullif(sums.n_hits, 0)), 0.0) as context_precision,
    recall as context_recall,
    lists.day_version
from lists
inner join sums using (trace_id, stage, label_class, k)
