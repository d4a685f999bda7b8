{#- The contracts that are staged: the one list. -#}
{% macro staged_contracts() %}
    {{ return([
        'retrieval_traces', 'feedback', 'answers', 'queries', 'qrels', 'eval_runs', 'corpus_documents', 'corpus_chunks',
        'corpus_snapshots', 'llm_calls', 'traffic_counts', 'landing_checks', 'alert_events', 'drill_reports'
    ]) }}
{% endmacro %}

{#- Which file every staged row came from, and what it beat, over all contracts. -#}
{% macro staged_deliveries() -%}
{%- for contract in staged_contracts() %}
    select file_id, lost_deliveries from {{ ref('stg_' ~ contract) }}
    {{- ' union all' if not loop.last }}
{%- endfor -%}
{%- endmacro %}

{#- The keys a contract knows, by its name. -#}
{% macro known_keys(contract) -%}
case {{ contract }}
    {%- for name in staged_contracts() %}
    when '{{ name }}' then {{ contract_columns(name).keys() | list }}
    {%- endfor %}
end
{%- endmacro %}
