{#- The rows of the files that set_new_files named, with the declared columns of their contract and
    nothing else, each with its file_id and load_id. A line that is no JSON object comes out as a
    row of NULLs, is turned away by the contract's reject_reason, and goes to the quarantine. -#}
{% macro landed_rows(contract) -%}
(
    select
        {%- for name in contract_columns(contract) %}
        landed.{{ name }},
        {%- endfor %}
        files.file_id,
        files.load_id
    from {{ read_rows(contract, 'rq_json_files', 'rq_parquet_files') }} as landed
    inner join (
        select path_to_read, max(file_id) as file_id, max(load_id) as load_id
        from {{ ref('stg_landing_files') }}
        where contract = '{{ contract }}'
        group by path_to_read
    ) as files
        on landed.landed_from = files.path_to_read
)
{%- endmacro %}

{#- The one reader of landed files, for staging and for the quarantine, so that both see a line the
    same way. The JSON reader fixes the columns and their types; Parquet files follow by name. -#}
{% macro read_rows(contract, json_files, parquet_files) -%}
(
    select *{{ lists_of_text(contract) }} from (
        select * from read_json(
            getvariable('{{ json_files }}'),
            format = 'newline_delimited',
            ignore_errors = true,
            filename = 'landed_from',
            maximum_object_size = 67108864,
            columns = {
                {%- for name, type in contract_columns(contract).items() %}
                {{ name }}: '{{ reading_type(type) }}'{{ ',' if not loop.last }}
                {%- endfor %}
            }
        )
        union all by name
        select * from read_parquet(getvariable('{{ parquet_files }}'), union_by_name = true, filename = 'landed_from')
    )
)
{%- endmacro %}

{#- The declared columns of a landing contract, name to reading type. Ids and times are read as
    text, whatever their JSON type. -#}
{% macro contract_columns(contract) %}
    {{ return(context[contract ~ '_columns']()) }}
{% endmacro %}

{#- Why a landed row of a contract is turned away; NULL where it is accepted. -#}
{% macro reject_reason(contract) -%}
{{ context[contract ~ '_reject_reason']() }}
{%- endmacro %}

{#- The type a column is read as: a list of text as JSON, until lists_of_text has looked at it. -#}
{% macro reading_type(type) -%}
{{ 'JSON' if type == 'VARCHAR[]' else type }}
{%- endmacro %}

{#- A list of text may be landed as one text: it is a list of one, not nothing. -#}
{% macro lists_of_text(contract) -%}
{%- for name, type in contract_columns(contract).items() if type == 'VARCHAR[]' %} replace (
        case
            when {{ name }} is null or json_type({{ name }}) = 'NULL' then null
            when json_type({{ name }}) = 'ARRAY' then from_json({{ name }}, '["VARCHAR"]')
            else [{{ name }} ->> '$']
        end as {{ name }}
    )
{%- endfor %}
{%- endmacro %}
