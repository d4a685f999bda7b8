{#- Pre-hook of a staging model: the landed files it has not read yet, as variables of the
    connection. Table functions take no subquery, so a variable carries the list. A path is
    read once, however often it was registered. What a killed night left unsettled is settled first. A list is never empty: /dev/null reads as an empty JSON
    file, and write_empty_parquet keeps a Parquet twin. -#}
{% macro set_new_files(model) -%}
{%- set contract = model.identifier | replace("stg_", "", 1) -%}
{%- set unread -%}
    from {{ ref('stg_landing_files') }}
    where contract = '{{ contract }}'
    {%- if is_incremental() %}
        and load_id > (select coalesce(max(load_id), 0) from {{ model }})
    {%- endif %}
{%- endset -%}
{%- if is_incremental() %}
{{ settle_unsettled_loads(model) }}
{%- endif %}
{{ forget_vanished_files(contract, unread) }}
delete from {{ ref('stg_unsettled_loads') }} where model = '{{ model.identifier }}';
delete from {{ ref('stg_rejected_lines') }} where file_id in (select file_id {{ unread }});
delete from {{ ref('stg_frozen_lines') }} where file_id in (select file_id {{ unread }});
insert into {{ ref('stg_unsettled_loads') }}
select
    '{{ model.identifier }}' as model,
    {% if is_incremental() %}(select coalesce(max(load_id), 0) from {{ model }}){% else %}0{% endif %} as settled_load_id;
set variable rq_new_files = (
    select coalesce(map_from_entries(list((path_to_read, ids))), map {})
    from (
        select path_to_read, {'file_id': max(file_id), 'load_id': max(load_id)} as ids {{ unread }} group by path_to_read
    )
);
set variable rq_json_files = (
    select coalesce(list(distinct path_to_read), ['/dev/null']) {{ unread }} and file_format = 'json'
);
set variable rq_parquet_files = (
    select ['{{ empty_parquet_path(contract) }}'] || coalesce(list(distinct path_to_read), [])
    {{ unread }} and file_format = 'parquet'
);
set variable rq_relation_days = (
    select coalesce(list(distinct path_to_read), []) {{ unread }} and file_format = 'relation'
);
set variable rq_first_arrival = (
    select coalesce(min(try_cast(split_part(path, 'arrived=', 2) as date)), '9999-01-01')::timestamp
    {{ unread }} and file_format = 'relation'
)
{%- endmacro %}

{#- A file that was removed before it was read was never landed: it is forgotten, so that it does not
    stop every night to come, and is read when it comes back. -#}
{% macro forget_vanished_files(contract, unread) -%}
delete from {{ ref('stg_landing_files') }}
where file_id in (
    select file_id {{ unread }} and file_format <> 'relation'
        and path_to_read not in (select file from glob('{{ landing_path() }}/{{ contract }}/**'))
);
{%- endmacro %}

{% macro landing_path() %}{{ return(env_var('RQ_LANDING', 'landing')) }}{% endmacro %}

{#- An empty Parquet file per contract, with its columns in their reading types. Read first, it makes
    each file be cast from its own types, never from what it has in common with the others of a night. -#}
{% macro write_empty_parquet() %}
{%- for contract in staged_contracts() %}
copy (
    select
        {%- for name, type in contract_columns(contract).items() %}
        null::{{ reading_type(type) }} as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    where false
) to '{{ empty_parquet_path(contract) }}' (format parquet);
{%- endfor %}
{% endmacro %}

{% macro empty_parquet_path(contract) %}{{ return(target.path ~ '.' ~ contract ~ '.empty.parquet') }}{% endmacro %}
