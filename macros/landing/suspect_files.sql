{#- Pre-hook of stg_rejected_lines: the files whose accepted and known rejected lines do not add up
    to their non-blank lines. Only these are read a second time. -#}
{% macro set_suspect_files(rejected_lines) -%}
{%- for contract in staged_contracts() -%}
{%- for file_format, fallback in [('json', '/dev/null'), ('parquet', empty_parquet_path(contract))] -%}
set variable rq_suspect_{{ contract }}_{{ file_format }} = (
    select ['{{ fallback }}'] || coalesce(list(distinct files.path_to_read), [])
    from {{ ref('stg_landing_files') }} as files
    left join {{ ref('stg_accepted_lines') }} as accepted using (file_id)
    {%- if is_incremental() %}
    left join (select file_id, count(*) as n_rejected from {{ rejected_lines }} group by file_id) as rejected
        using (file_id)
    {%- else %}
    left join (select null::integer as file_id, 0 as n_rejected where false) as rejected using (file_id)
    {%- endif %}
    where files.contract = '{{ contract }}' and files.file_format = '{{ file_format }}'
        -- a file that changed was registered, and read whole, again
        and files.file_id in (select max(file_id) from {{ ref('stg_landing_files') }} group by path)
        and files.n_lines <> coalesce(accepted.n_staged, 0) + coalesce(accepted.n_duplicates, 0)
        + coalesce(accepted.n_superseded, 0) + coalesce(rejected.n_rejected, 0)
);
{%- endfor -%}
{%- endfor -%}
{%- endmacro %}

{#- The lines of the suspect files of every contract: place among the non-blank lines, and the
    reason a line was turned away, NULL where it was not. Files are read in their own order. -#}
{% macro judged_lines() -%}
{%- for contract in staged_contracts() %}
    select
        landed_from as path_to_read,
        row_number() over () as line_place,
        case
            when coalesce(
                {%- for name in contract_columns(contract) %}{{ name }}::varchar{{ ', ' if not loop.last }}{% endfor -%}
            ) is null then 'unreadable_line'
            else {{ reject_reason(contract) }}
        end as reject_reason
    from {{ read_rows(contract, 'rq_suspect_' ~ contract ~ '_json', 'rq_suspect_' ~ contract ~ '_parquet') }}
    {{- ' union all' if not loop.last }}
{%- endfor -%}
{%- endmacro %}
