{% macro landing_checks_columns() %}
    {{ return({
        'check_id': 'VARCHAR', 'checked_at': 'VARCHAR', 'check_run_id': 'VARCHAR', 'contract': 'VARCHAR',
        'expectation_id': 'VARCHAR', 'severity': 'VARCHAR', 'outcome': 'VARCHAR', 'message': 'VARCHAR',
        'column_name': 'VARCHAR', 'observed': 'DOUBLE', 'minimum': 'DOUBLE', 'maximum': 'DOUBLE',
        'n_rows': 'BIGINT', 'n_sampled': 'BIGINT', 'n_failed': 'BIGINT', 'examples': 'VARCHAR[]',
        'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro landing_checks_reject_reason() -%}
case
    when {{ present('check_id') }} is null then 'missing_check_id'
    when {{ utc_timestamp('checked_at') }} is null then 'bad_checked_at'
    when check_run_id is null or contract is null or expectation_id is null then 'missing_expectation'
    when severity is null or outcome is null or message is null then 'missing_outcome'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
