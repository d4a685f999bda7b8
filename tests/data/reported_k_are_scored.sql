-- Every k that the metric catalog reports is 0, the whole list, or one at which var cutoffs cuts the lists of a stage.
with reported as (
    select metric, unnest(reported_k) as k from {{ ref('dim_metrics') }}
),

cutoffs as (
    {{ stage_cutoffs() }}
)

select reported.*
from reported
anti join cutoffs
    on reported.k = cutoffs.k
