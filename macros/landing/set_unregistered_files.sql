{#- Pre-hook of the ledger: the landed files it does not know yet. A file is known by its path
    below the landing folder, size and time of change, so one that grew is read again and what it repeats counts as
    duplicate. Files and folders whose name starts with . or _ are not landed. -#}
{% macro set_unregistered_files(ledger) -%}
{%- set unregistered -%}
    from read_blob('{{ landing_path() }}/*/**')
    where not regexp_matches(right(filename, -length('{{ landing_path() }}')), '/[._]')
        and regexp_matches(filename, '\.(jsonl|jsonl\.gz|jsonl\.zst|parquet)$')
    {%- if is_incremental() %}
        and (right(filename, -length('{{ landing_path() }}/')), size, last_modified at time zone 'UTC') not in (
            select (path, size_bytes, modified_at) from {{ ledger }}
        )
    {%- endif %}
{%- endset -%}
set variable rq_new_files = (select coalesce(list(filename order by filename), []) {{ unregistered }});
set variable rq_json_files = (
    select coalesce(list(filename order by filename), ['/dev/null'])
    {{ unregistered }} and filename not like '%.parquet'
);
set variable rq_parquet_files = (
    select coalesce(list(filename order by filename), ['{{ empty_parquet_path('retrieval_traces') }}'])
    {{ unregistered }} and filename like '%.parquet'
)
{%- endmacro %}

{#- The highest value of a counter so far: numbers follow the table, not a clock. They go on when the table is
    rebuilt (it stands until it is swapped), so that a full refresh that is killed leaves nothing that
    looks newer than what the next night builds. -#}
{% macro highest(column) -%}
{%- if load_relation(this) is not none -%}
(select coalesce(max({{ column }}), 0) from {{ this }})
{%- else -%}
0
{%- endif -%}
{%- endmacro %}
