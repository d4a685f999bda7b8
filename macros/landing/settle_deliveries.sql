{#- What a staging model selects as its last step: its rows as delivered, nothing lost to them yet. -#}
{% macro deliveries(rows) -%}
select
    *,
    load_id as changed_in_load,
    []::struct(
        file_id integer, outcome varchar, load_id integer, was_on date, was_in varchar, was_in_run varchar
    )[] as lost_deliveries
from {{ rows }}
{%- endmacro %}

{#- Post-hook of a staging model: the new rows become what the model promises, one accepted row per
    key. Done in place, because only the few lines that were rejected or contested pay for it; and in a
    transaction after that of the rows, because deleting rows that are not committed makes DuckDB write
    all of them again. A night that is killed in between leaves a mark in stg_unsettled_loads, and the
    next one settles what it left before it reads on (set_new_files).

    Rejected lines leave for stg_rejected_lines, those of frozen days are turned away. Rows were inserted in the order of their lines, so
    the distance from the first row of the file is the place of the line.

    Delivery is at least once and out of order: of several deliveries of one key the winner is the
    greatest (delivered_at, sha256 of its content), never the one that happened to be read last. It
    carries what lost against it, so that the accounting of every file adds up, and where that
    stood, which a correction may have changed: its day, the group it was in (session, query set)
    and its evaluation run, as the model's meta says. -#}
{% macro settle_deliveries(staged) -%}
begin transaction;
{{ settle_unsettled_loads(staged) }}
delete from {{ ref('stg_unsettled_loads') }} where model = '{{ staged.identifier }}';
commit
{%- endmacro %}

{% macro settle_unsettled_loads(staged) -%}
{%- set key = config.get('unique_key') -%}
{%- set stood = config.get('meta') or {} -%}
{%- set rejected = ref('stg_rejected_lines') -%}
{%- set contested = 'contested_' ~ staged.identifier -%}
set variable rq_settled_load = (
    select min(settled_load_id) from {{ ref('stg_unsettled_loads') }} where model = '{{ staged.identifier }}'
);
insert into {{ rejected }} by name
select
    file_id, staged.load_id, files.path_to_read, staged.rowid - first_rows.first_rowid + 1 as line_place,
    staged.reject_reason, staged.rejected_text
from {{ staged }} as staged
inner join (
    select file_id, min(rowid) as first_rowid
    from {{ staged }}
    where file_id in (select file_id from {{ staged }} where reject_reason is not null)
    group by file_id
) as first_rows using (file_id)
inner join {{ ref('stg_landing_files') }} as files using (file_id)
where staged.reject_reason is not null;
delete from {{ staged }} where reject_reason is not null;
{{ turn_away_frozen(staged) }}

create or replace temp table {{ contested }} as
select *
from {{ staged }}
where {{ key }} in (
    select {{ key }}
    from {{ staged }}
    where {{ key }} in (select {{ key }} from {{ staged }} where load_id > getvariable('rq_settled_load'))
    group by {{ key }}
    having count(*) > 1
);
delete from {{ staged }} where {{ key }} in (select {{ key }} from {{ contested }});
insert into {{ staged }} by name
{{ newest_of(contested, key, stood.get('day', 'null'), stood.get('group', 'null'), stood.get('run', 'null')) }};
drop table {{ contested }};
{%- endmacro %}

{% macro newest_of(contested, key, day, group, run) -%}
with described as (
    select
        *,
        ({{ day }})::date as was_on,
        ({{ group }})::varchar as was_in,
        ({{ run }})::varchar as was_in_run,
        sha256(row(*columns(* exclude (file_id, load_id, changed_in_load, lost_deliveries)))::varchar) as content_sha256
    from {{ contested }}
),

ranked as (
    select
        *,
        row_number() over newest_first as delivery_rank,
        first_value(content_sha256) over newest_first as winning_sha256,
        max(load_id) over (partition by {{ key }}) as last_load_id
    from described
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
