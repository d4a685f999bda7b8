with targets as (
    select distinct
        slo_id, traffic, segment_dimension, segment_value, stage, label_class, metric, k, objective,
        max(night_on) over (partition by slo_id) as newest_night_on
    from {{ ref('int_slo_nights') }}
),

bets as (
    -- how much to stake on being below the objective; a stake must be affordable on the worst night
    select *, unnest([0.1, 0.2, 0.4, 0.8, 1.4]) as stake
    from targets
),

cells as (
    select
        bets.slo_id,
        bets.segment_value,
        bets.stake,
        histograms.traced_on as night_on,
        -- counts are scaled to their effective number, as the intervals scale them
        histograms.weight * (denominators.weight_sum::double / denominators.weight_square_sum::double)
        * ln(1 + bets.stake * (bets.objective - histograms.value)) as gain
    from bets
    inner join {{ ref('int_score_histograms') }} as histograms
        using (traffic, segment_dimension, segment_value, stage, label_class, metric, k)
    inner join {{ ref('int_score_denominators') }} as denominators
        using (traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k)
    where bets.stake < 1 / (1 - bets.objective) and histograms.traced_on <= bets.newest_night_on
),

night_gains as (
    -- summed as integers, so that their order does not matter
    select slo_id, segment_value, stake, night_on, sum(round(gain * 1e12)::hugeint) as gain
    from cells
    group by slo_id, segment_value, stake, night_on
),

running as (
    select *, sum(gain) over (partition by slo_id, segment_value, stake order by night_on) as total
    from night_gains
),

since_lowest as (
    select
        slo_id, segment_value, stake, night_on,
        (total - least(0, coalesce(min(total) over (
            partition by slo_id, segment_value, stake order by night_on rows between unbounded preceding and 1 preceding
        ), 0)))::double / 1e12 as gain
    from running
),

by_night as (
    select slo_id, segment_value, night_on, list(gain order by stake) as gains, max(gain) as highest
    from since_lowest
    group by slo_id, segment_value, night_on
)

select
    slo_id,
    segment_value,
    night_on,
    highest + ln(list_sum(list_transform(gains, lambda gain: exp(gain - highest))) / len(gains)) as ecusum,
    ln({{ var('nights_between_false_alarms') }}) as alarm_at,
    ecusum >= alarm_at as is_alarm
from by_night
