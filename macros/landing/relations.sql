{#- A contract may be an existing relation instead of files, here or in an attached database:
    vars: landing_relations. It is treated as a folder with one file per UTC day of arrival. A day
    whose rows became more, or newer, is a file that changed: it is read again whole, and what it
    repeats counts as duplicate. So rows that were committed late are found without a watermark,
    and staging, accounting and quarantine are those of files. -#}
{% macro landing_relation(contract) %}{{ return(checked_landing_relations().get(contract)) }}{% endmacro %}

{#- The days of the relations that the ledger does not know as they are now. -#}
{% macro unregistered_relation_days() -%}
{%- for contract, landed in checked_landing_relations().items() %}
    select '{{ contract }}' as contract, *
    from (
        select
            {{ arrival_day(contract, landed) }} as path,
            count(*) as n_lines,
            coalesce(max({{ landed.arrival_column }}::timestamp), 'epoch'::timestamp) as modified_at
        from {{ landed.relation }}
        group by 1
    )
    {%- if is_incremental() %}
    where (path, n_lines, modified_at) not in (
        select (path, n_lines, modified_at) from {{ this }} where file_format = 'relation'
    )
    {%- endif %}
    {{- ' union all by name' }}
{%- endfor %}
    select null::varchar as contract, null::varchar as path, null::bigint as n_lines, null::timestamp as modified_at
    where false
{%- endmacro %}

{% macro arrival_day(contract, landed) -%}
'{{ contract }}/{{ landed.relation }}/arrived=' || coalesce({{ landed.arrival_column }}::date::varchar, 'unknown')
{%- endmacro %}

{#- The rows of a contract's relation that set_new_files named, in the reading types of the contract.
    Days are asked for by a plain comparison, which is pushed into the scan, and rows without a time
    of arrival apart. A row without ingested_at was delivered when it arrived. landed_row is the row
    as it stands there, for the quarantine. -#}
{% macro relation_rows(contract) -%}
{%- set landed = landing_relation(contract) -%}
{%- for arrived in [landed.arrival_column ~ " >= getvariable('rq_first_arrival')", landed.arrival_column ~ ' is null'] if landed %}
        union all by name
        select
            {%- for name, type in contract_columns(contract).items() %}
            {{ read_as(name, reading_type(type)) if name != 'ingested_at' else 'coalesce(ingested_at::varchar, arrived_at)' }} as {{ name }},
            {%- endfor %}
            landed_from,
            landed_row
        from (
            select {% for name in contract_columns(contract) %}null as {{ name }}, {% endfor %}null as landed_row where false
            union all by name
            select
                {%- for name, expression in landed.get('columns', {}).items() %}
                {{ expression }} as {{ name }},
                {%- endfor %}
                {{ arrival_day(contract, landed) }} as landed_from,
                {{ landed.arrival_column }}::timestamp::varchar as arrived_at,
                source as landed_row,
                columns(lambda name: name not in {{ (landed.get('columns', {}).keys() | list + ['landed_from', 'arrived_at', 'landed_row']) | tojson | replace('"', "'") }})
            from {{ landed.relation }} as source
            where {{ arrived }} and list_contains(getvariable('rq_relation_days'), {{ arrival_day(contract, landed) }})
        )
{%- endfor %}
{%- endmacro %}

{#- A value of any type, read as the JSON reader would read it. A nested value may be JSON text. -#}
{% macro read_as(name, type) -%}
{%- if type == 'VARCHAR' -%}
{{ name }}::varchar
{%- elif type in ['BIGINT', 'DOUBLE', 'BOOLEAN'] -%}
try_cast({{ name }}::varchar as {{ type }})
{%- else -%}
try_cast(case
                when typeof({{ name }}) = 'VARCHAR' then coalesce(try_cast({{ name }}::varchar as json), to_json({{ name }}::varchar))
                else to_json({{ name }})
            end as {{ type }})
{%- endif -%}
{%- endmacro %}

{#- on-run-start: the databases whose relations are read, read-only. -#}
{% macro attach_landing_databases() %}
{%- for alias, path in var('landing_databases').items() %}
attach if not exists '{{ path }}' as {{ alias }} (read_only);
{%- endfor %}
{% endmacro %}
