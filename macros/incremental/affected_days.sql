{#- Pre-hook of a model that is replaced by day: the days it has to rebuild, those whose version
    exceeds that of its last build (not of its rows: few days of a sparse model have any). A variable
    of the connection carries them, because a list that is constant in the query is pushed down through
    views and unnests to the scan, a join is not. -#}
{% macro set_affected_days(model) -%}
{%- set day_versions = ref('int_day_versions') -%}
{%- do ref('stg_purges') -%}
{%- do ref('int_built_versions') -%}
{%- if is_incremental() -%}
set variable rq_affected_days = (
    select coalesce(list(distinct traced_on), [])
    from (
        select traced_on from {{ day_versions }}
        where day_version > (
            select coalesce(max(day_version), 0) from {{ ref('int_built_versions') }} where model = '{{ model.identifier }}'
        )
        {%- if config.get('full_refresh') is false %}
        -- a model that is never rebuilt keeps its frozen days, and no other that is no longer known
        union all
        select traced_on from {{ model }}
        where {{ is_kept('traced_on') }} and traced_on not in (select traced_on from {{ day_versions }})
        {%- endif %}
    )
)
{%- else -%}
set variable rq_affected_days = null
{%- endif -%}
{%- endmacro %}

{#- Post-hook of the same: it is built up to here. -#}
{% macro record_built_version(model) -%}
delete from {{ ref('int_built_versions') }} where model = '{{ model.identifier }}';
insert into {{ ref('int_built_versions') }}
select '{{ model.identifier }}' as model, {{ current_day_version() }} as day_version
{%- endmacro %}

{#- Is this day to be rebuilt? All days are on a first build. -#}
{% macro is_affected(day) -%}
{%- if is_incremental() -%}
{{ is_listed('rq_affected_days', day) }}
{%- else -%}
true
{%- endif -%}
{%- endmacro %}

{#- Is this day in the list that a variable of the connection holds? The range says no more than the list: it is
    what the optimizer carries over a join of days to the other side, and holds against the zones of a table. -#}
{% macro is_listed(variable, day) -%}
(
    list_contains(getvariable('{{ variable }}'), {{ day }})
    and {{ day }} >= list_min(getvariable('{{ variable }}'))
    and {{ day }} <= list_max(getvariable('{{ variable }}'))
)
{%- endmacro %}

{#- The version a rebuilt day gets, stamped on its rows. -#}
{% macro current_day_version() -%}
(select coalesce(max(day_version), 0) from {{ ref('int_day_versions') }})
{%- endmacro %}

{#- This model's rows as the last build left them; no rows, with these types, on a first build. -#}
{% macro rows_so_far(columns) -%}
{%- if is_incremental() -%}
select {{ columns | join(', ') }} from {{ this }}
{%- else -%}
select {% for name, type in columns.items() %}null::{{ type }} as {{ name }}{{ ', ' if not loop.last }}{% endfor %} where false
{%- endif -%}
{%- endmacro %}

{#- Pre-hook of the hourly models: the last three days, which they rebuild every night. -#}
{% macro set_hourly_days() -%}
set variable rq_hourly_days = (
    select list_transform([0, 1, 2], lambda n_days: (as_of::date - n_days)::date) from {{ ref('int_as_of') }}
)
{%- endmacro %}
