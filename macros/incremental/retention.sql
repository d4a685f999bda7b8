{#- Days before the last purge are frozen: their raw rows are gone, so nothing may be computed of them
    again. What the purge recorded decides, no clock. -#}
{% macro frozen_until() -%}
(select max(purged_until) from {{ ref('stg_purges') }})
{%- endmacro %}

{#- Is this day not frozen? -#}
{% macro is_kept(day) -%}
coalesce({{ day }} >= {{ frozen_until() }}, true)
{%- endmacro %}

{#- How long after its trace a label may be given, in days. -#}
{% macro label_lookback_days() -%}
{{ var('retention_days') if var('label_lookback_days') == '' else var('label_lookback_days') }}
{%- endmacro %}

{#- As a staging model settles: new rows of a frozen day, and deliveries of a purged key, are turned away
    and counted as too_late. The model's meta names the day its rows are purged by (raw_day). -#}
{% macro turn_away_frozen(staged) -%}
{%- set raw_day = (config.get('meta') or {}).get('raw_day') -%}
{%- if raw_day %}
{%- set is_late -%}
    load_id > getvariable('rq_settled_load') and (
        ({{ raw_day }})::date < {{ frozen_until() }}
        or {{ config.get('unique_key') }} in (
            select row_key from {{ ref('stg_purged_rows') }} where model = '{{ staged.identifier }}'
        )
    )
{%- endset %}
insert into {{ ref('stg_frozen_lines') }}
select file_id, 'too_late' as outcome, count(*) as n_lines from {{ staged }} where {{ is_late }} group by file_id;
delete from {{ staged }} where {{ is_late }};
{%- endif %}
{%- endmacro %}
