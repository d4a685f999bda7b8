{#- on-run-start: a var of the wrong type ends the run in one line that says what and where. -#}
{% macro check_vars() %}
    {% for name in ['long_tail_max_sessions', 'max_rank', 'reported_days', 'reported_weeks'] %}
        {% do require_var(name, 'a whole number >= 0', var(name) is integer and var(name) is not boolean and var(name) >= 0) %}
    {% endfor %}
    {% do require_var('label_lookback_days', 'a whole number >= 0, or empty', var('label_lookback_days') == '' or (var('label_lookback_days') is integer and var('label_lookback_days') is not boolean and var('label_lookback_days') >= 0)) %}
    {% do require_var('retention_days', 'a whole number >= 28, the days that verdicts look back', var('retention_days') is integer and var('retention_days') is not boolean and var('retention_days') >= 28) %}
    {% for name in ['confidence', 'min_judged_share', 'max_quarantined_share'] %}
        {% do require_var(name, 'a number between 0 and 1', var(name) is number and var(name) is not boolean and 0 < var(name) <= 1) %}
    {% endfor %}
    {% do require_var('upvote_without_correctness', "'relevant' or 'unjudged'", var('upvote_without_correctness') in ['relevant', 'unjudged']) %}
    {% do require_var('bootstrap_method', "'bca' or 'percentile'", var('bootstrap_method') in ['bca', 'percentile']) %}
    {% do require_var('resampling_unit', "'session', 'user' or 'night'", var('resampling_unit') in ['session', 'user', 'night']) %}
    {% do require_var('document_id_pattern', 'a regular expression (text)', var('document_id_pattern') is string) %}
    {% do require_var('as_of', "an ISO 8601 time such as '2026-11-30T00:00:00Z', or empty", modules.re.match('^($|[0-9]{4}-[0-9]{2}-[0-9]{2})', var('as_of') | string)) %}
    {% do require_var('segment_dimensions', 'a list of names', var('segment_dimensions') is sequence and var('segment_dimensions') is not string and var('segment_dimensions') is not mapping and var('segment_dimensions') | reject('string') | list | length == 0) %}
    {% do require_var('landing_databases', 'a mapping of a name to the path of a DuckDB file', var('landing_databases') is mapping) %}
    {% do checked_landing_relations() %}
    {% do checked_cutoffs() %}
{% endmacro %}

{% macro require_var(name, expected, is_met) %}
    {% if not is_met %}
        {{ exceptions.raise_compiler_error("var " ~ name ~ " must be " ~ expected ~ ", got " ~ var(name) ~ " (dbt_project.yml or --vars)") }}
    {% endif %}
{% endmacro %}

{#- The ranks at which lists are cut, by stage; checked where it is used too, because models read it
    before any hook runs. -#}
{% macro checked_cutoffs() %}
    {% set expected = 'a mapping of stage (final, retriever) to a list of ranks >= 1' %}
    {% do require_var('cutoffs', expected, var('cutoffs') is mapping) %}
    {% for stage, ranks in var('cutoffs').items() %}
        {% set is_list = ranks is sequence and ranks is not string and ranks is not mapping and ranks | length > 0 %}
        {% do require_var('cutoffs', expected, stage in ['final', 'retriever'] and is_list) %}
        {% do require_var('cutoffs', expected, ranks | reject('integer') | list | length == 0 and (ranks | min) >= 1) %}
    {% endfor %}
    {{ return(var('cutoffs')) }}
{% endmacro %}

{#- The contracts that are relations; checked where it is used too, because models read it before any
    hook runs. -#}
{% macro checked_landing_relations() %}
    {% set expected = 'a mapping of contract to {relation, arrival_column, columns: {contract column: expression}}' %}
    {% do require_var('landing_relations', expected, var('landing_relations') is mapping) %}
    {% for contract, landed in var('landing_relations').items() %}
        {% do require_var('landing_relations', expected, contract in staged_contracts() and landed is mapping) %}
        {% do require_var('landing_relations', expected, landed.get('relation') is string and landed.get('arrival_column') is string) %}
        {% do require_var('landing_relations', expected, landed.keys() | reject('in', ['relation', 'arrival_column', 'columns']) | list | length == 0) %}
        {% do require_var('landing_relations', expected, landed.get('columns', {}) is mapping) %}
        {% do require_var('landing_relations', expected, landed.get('columns', {}).keys() | reject('in', contract_columns(contract).keys()) | list | length == 0) %}
    {% endfor %}
    {{ return(var('landing_relations')) }}
{% endmacro %}
