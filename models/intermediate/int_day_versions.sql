with touched as (
    select * from {{ ref('int_touched_days') }}
    where traced_on is not null and {{ is_kept('traced_on') }}
),

so_far as (
    {{ rows_so_far({
        'contract': 'varchar', 'load_id': 'integer', 'day_version': 'integer', 'known_until': 'timestamp',
        'policy_version': 'integer'
    }) }}
),

watermarks as (
    select contract, max(load_id) as load_id
    from so_far
    group by contract
),

last_version as (
    select
        {{ highest('day_version') }} as day_version,
        max_by(known_until, day_version) as known_until,
        max(policy_version) as policy_version
    from so_far
),

landed as (
    select touched.contract, touched.load_id, touched.traced_on
    from touched
    left join watermarks using (contract)
    where touched.load_id > coalesce(watermarks.load_id, 0)
),

known as (
    -- where as_of moves, labels given between the old and the new one come to be known, or cease to be
    select 'as_of' as contract, touched.load_id, touched.traced_on
    from touched
    inner join last_version
        on touched.known_at > least(last_version.known_until, {{ known_until() }})
        and touched.known_at <= greatest(last_version.known_until, {{ known_until() }})
),

ruled as (
    -- a changed label policy says something else of every day
    select 'policy' as contract, touched.load_id, touched.traced_on
    from touched
    inner join last_version on last_version.policy_version < {{ current_policy_version() }}
),

changed as (
    select * from landed
    union
    select * from known
    union
    select * from ruled
)

select
    changed.contract,
    changed.load_id,
    changed.traced_on,
    last_version.day_version + 1 as day_version,
    {{ known_until() }} as known_until,
    {{ current_policy_version() }} as policy_version,
    '{{ invocation_id }}' as built_by
from changed
cross join last_version
