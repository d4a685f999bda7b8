-- The weights of a histogram add up to those of the units that its denominators count, to the millionth: in the days
-- rebuilt last.
with histograms as (
    select
        traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k, sum(weight) as weight
    from {{ ref('int_score_histograms') }}
    where day_version = (select max(day_version) from {{ ref('int_score_denominators') }})
    group by all
),

denominators as (
    select traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k, weight_sum
    from {{ ref('int_score_denominators') }}
    where weight_sum > 0 and day_version = (select max(day_version) from {{ ref('int_score_denominators') }})
)

select *
from denominators
full join histograms
    using (traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k)
where denominators.weight_sum is distinct from histograms.weight
