with targets as (
    select
        *,
        split_part(segment, '=', 1) as segment_dimension,
        case when segment = 'total' then 'total' else split_part(segment, '=', 2) end as wanted_value
    from {{ ref('slo_targets') }}
),

recent_sets as (
    select sets.label_class, sets.n_relevant
    from {{ ref('int_relevant_sets') }} as sets
    cross join {{ ref('int_as_of') }} as as_of
    where sets.traced_on >= as_of.full_days_end_on - 28 and sets.n_relevant > 0
),

ceilings as (
    -- precision cannot exceed what there is to find
    select targets.slo_id, avg(least(recent_sets.n_relevant, targets.k)) / targets.k as ceiling
    from targets
    inner join recent_sets using (label_class)
    where targets.metric = 'precision' and targets.k > 0
    group by targets.slo_id, targets.k
),

judged as (
    select
        targets.*,
        case when classes.completeness = 'complete' then 'scheduled_eval' else 'production' end as traffic,
        classes.completeness,
        metrics.needs,
        case targets.window_name when 'day' then 1 when 'week' then 7 when 'trailing_28d' then 28 end as n_days,
        case
            when count(*) over (partition by targets.slo_id) > 1 then 'this slo_id is there twice'
            when metrics.metric is null then 'there is no metric ' || targets.metric
            when not list_contains(metrics.reported_k, targets.k)
                then targets.metric || ' has no intervals at k = ' || targets.k
                    || ' (reported_k of seeds/metric_catalog.csv)'
            when targets.stage not in ('final', 'retriever') then 'there is no stage ' || targets.stage
            when not coalesce(classes.is_landed, false) then 'there is no landed label class ' || targets.label_class
            when metrics.needs = 'complete' and classes.completeness <> 'complete'
                then targets.metric || ' cannot be told from ' || targets.label_class
                    || ' labels, which are not complete'
            when metrics.needs = 'judged_share' and classes.completeness = 'complete'
                then targets.metric || ' says nothing of ' || targets.label_class || ' labels, which judge few chunks'
            when not list_contains(['total'] || {{ var('segment_dimensions') }}, targets.segment_dimension)
                then 'there is no segment dimension ' || targets.segment_dimension || ' (vars: segment_dimensions)'
            when n_days is null then 'window_name is none of day, week, trailing_28d'
            when not coalesce(targets.objective > 0 and targets.objective < 1, false)
                then 'objective is not between 0 and 1'
            when not coalesce(targets.margin >= 0 and targets.margin < targets.objective, false)
                then 'margin makes no sense'
            when not coalesce(targets.tolerance > 0 and targets.tolerance < 1, false) then 'tolerance makes no sense'
            when targets.objective > ceilings.ceiling
                then 'objective ' || targets.objective || ' is above ' || round(ceilings.ceiling, 3)
                    || ', the highest precision that these labels allow'
        end as problem
    from targets
    left join {{ ref('dim_metrics') }} as metrics using (metric)
    left join {{ ref('label_classes') }} as classes using (label_class)
    left join ceilings using (slo_id)
)

select * exclude (problem)
from judged
where case when problem is null then true else error('seeds/slo_targets.csv: ' || slo_id || ': ' || problem) end
