with units as (
    select * from {{ ref('int_score_units') }}
    where time_grain = 'day' and {{ is_affected('traced_on') }}
        and traffic = 'production' and score is not null and '{{ var("resampling_unit") }}' = 'user'
),

session_users as (
    select traced_on, traffic, session_id, min(user_id) as user_id
    from {{ ref('fct_retrievals') }}
    where {{ is_affected('traced_on') }}
    group by traced_on, traffic, session_id
),

scored as (
    select
        units.*,
        -- a session whose user nobody logged is a cluster of its own; a digest, as this outlives the raw rows
        md5(coalesce('user ' || session_users.user_id, 'session ' || units.session_id)) as cluster_id,
        -- many-valued metrics on their grid, as distinct sums are what the intervals cost
        round(units.weight * coalesce(round(units.score / units.grid) * units.grid, units.score))::bigint as score_sum
    from units
    inner join session_users using (traced_on, traffic, session_id)
),

segmented as (
    select * exclude (segment_key) from scored
    where segment_key is null
    union all by name
    select
        scored.* exclude (segment_key, segment_dimension, segment_value),
        segments.segment_dimension,
        segments.segment_value
    from scored
    inner join {{ ref('int_segments') }} as segments using (traced_on, segment_key)
)

select
    traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k,
    cluster_id,
    sum(score_sum)::bigint as score_sum,
    sum(weight)::bigint as unit_sum,
    {{ current_day_version() }} as day_version
from segmented
group by traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k, cluster_id
