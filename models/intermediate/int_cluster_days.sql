with users as (
    -- what an earlier night stored is of no use where something else is resampled
    select * exclude (day_version) from {{ ref('int_user_day_scores') }}
    where '{{ var("resampling_unit") }}' = 'user'
),

nights as (
    select
        traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k,
        traced_on::varchar as cluster_id,
        sum(round(weight * value)::bigint)::bigint as score_sum,
        sum(weight)::bigint as unit_sum
    from {{ ref('int_score_histograms') }}
    where '{{ var("resampling_unit") }}' = 'night'
    group by traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k
)

select *, 1 as min_window_days from users
union all by name
-- some nights do not tell how nights vary
select *, 14 as min_window_days from nights
