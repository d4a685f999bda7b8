{#- The new lines of a contract, as set_new_files named them: its declared columns and nothing else,
    the reason to turn a line away, NULL where it is accepted, and where it came from. A line that is
    no JSON object comes out as a row of NULLs. Rows stay in the order of the lines (a join would
    lose it), so that settle_deliveries knows the place of a rejected one; a row of a relation has
    no line to look up, and brings its text along. -#}
{% macro landed_rows(contract) -%}
{%- do ref('stg_rejected_lines') -%}
{%- do ref('stg_unsettled_loads') -%}
{%- do ref('stg_frozen_lines') -%}
{%- do ref('stg_purged_rows') -%}
{%- do ref('stg_purges') -%}
(
    select
        *{% if landing_relation(contract) %} exclude (landed_row){% endif %},
        {% if landing_relation(contract) -%}
        case when reject_reason is not null then to_json(landed_row)::varchar end
        {%- else -%}
        null::varchar
        {%- endif %} as rejected_text
    from (
        select
            * exclude (landed_from),
            case
                when coalesce(
                    {%- for name in contract_columns(contract) %}{{ name }}::varchar{{ ', ' if not loop.last }}{% endfor -%}
                ) is null then 'unreadable_line'
                else {{ reject_reason(contract) }}
            end as reject_reason,
            map_extract_value(getvariable('rq_new_files'), landed_from).file_id as file_id,
            map_extract_value(getvariable('rq_new_files'), landed_from).load_id as load_id
        from {{ read_rows(contract) }}
    )
)
{%- endmacro %}

{#- The one reader of what landed. The JSON reader fixes the columns and their types; Parquet files
    follow by name. -#}
{% macro read_rows(contract) -%}
(
    select *{{ lists_of_text(contract) }} from (
        select * from read_json(
            getvariable('rq_json_files'),
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
        select
            {%- for name in contract_columns(contract) %}
            {{ name }},
            {%- endfor %}
            landed_from
        from read_parquet(getvariable('rq_parquet_files'), union_by_name = true, filename = 'landed_from')
        {{- relation_rows(contract) }}
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
