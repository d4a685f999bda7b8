{#- Delivery is at least once and out of order: of several deliveries of one key the winner is the
    greatest (delivered_at, sha256 of its content), never the one that happened to be read last.
    `arrivals` is a CTE of accepted rows with delivered_at, file_id and load_id; the result has one
    row per key, for dbt's delete+insert, and carries on each row what lost against it, so that the
    accounting of every file adds up, and where it stood: its day, the group it was in (session, query
    set) and its evaluation run, which a correction may have changed. Only contested keys pay for the
    comparison. -#}
{% macro newest_delivery(arrivals, key, day='null', group='null', run='null') -%}
{%- set technical = 'file_id, load_id, changed_in_load, lost_deliveries' -%}
deliveries as (
    select
        *,
        load_id as changed_in_load,
        []::struct(
            file_id integer, outcome varchar, load_id integer, was_on date, was_in varchar, was_in_run varchar
        )[] as lost_deliveries
    from {{ arrivals }}
    {%- if is_incremental() %}
    union all by name
    select * from {{ this }} where {{ key }} in (select {{ key }} from {{ arrivals }})
    {%- endif %}
),

contested_keys as (
    select {{ key }} from deliveries group by {{ key }} having count(*) > 1
),

contested as (
    select
        *,
        ({{ day }})::date as was_on,
        ({{ group }})::varchar as was_in,
        ({{ run }})::varchar as was_in_run,
        sha256(row(*columns(* exclude ({{ technical }})))::varchar) as content_sha256
    from deliveries
    where {{ key }} in (select {{ key }} from contested_keys)
),

ranked as (
    select
        *,
        row_number() over newest_first as delivery_rank,
        first_value(content_sha256) over newest_first as winning_sha256,
        max(load_id) over (partition by {{ key }}) as last_load_id
    from contested
    window newest_first as (
        partition by {{ key }} order by delivered_at desc, content_sha256 desc, changed_in_load, file_id
    )
),

losses as (
    select
        {{ key }} as lost_key,
        flatten(list(
            case when delivery_rank = 1 then lost_deliveries else list_append(
                lost_deliveries,
                {
                    'file_id': file_id,
                    'outcome': case when content_sha256 = winning_sha256 then 'duplicate' else 'superseded' end,
                    'load_id': last_load_id,
                    'was_on': was_on,
                    'was_in': was_in,
                    'was_in_run': was_in_run
                }
            ) end
            order by delivery_rank
        )) as all_lost_deliveries
    from ranked
    group by {{ key }}
)

select * from deliveries
where {{ key }} not in (select {{ key }} from contested_keys)
union all by name
select
    ranked.* exclude (
        was_on, was_in, was_in_run, content_sha256, delivery_rank, winning_sha256, last_load_id, load_id, lost_deliveries
    ),
    ranked.last_load_id as load_id,
    losses.all_lost_deliveries as lost_deliveries
from ranked
inner join losses on ranked.{{ key }} = losses.lost_key
where ranked.delivery_rank = 1
{%- endmacro %}
