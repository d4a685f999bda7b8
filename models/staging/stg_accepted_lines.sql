with staged as (
    {{ staged_deliveries() }}
),

winners as (
    select file_id, count(*) as n_staged
    from staged
    group by file_id
),

losers as (
    select
        lost.file_id,
        count(*) filter (where lost.outcome = 'duplicate') as n_duplicates,
        count(*) filter (where lost.outcome = 'superseded') as n_superseded
    from (select unnest(lost_deliveries) as lost from staged)
    group by lost.file_id
)

select
    file_id,
    coalesce(winners.n_staged, 0) as n_staged,
    coalesce(losers.n_duplicates, 0) as n_duplicates,
    coalesce(losers.n_superseded, 0) as n_superseded
from winners
full join losers using (file_id)
