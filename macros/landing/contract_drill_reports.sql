{% macro drill_reports_columns() %}
    {{ return({
        'drill_result_id': 'VARCHAR', 'drilled_at': 'VARCHAR', 'drill_id': 'VARCHAR', 'variant': 'VARCHAR',
        'metric': 'VARCHAR', 'k': 'BIGINT', 'stage': 'VARCHAR', 'verdict': 'VARCHAR', 'source': 'VARCHAR',
        'is_expected_catch': 'BOOLEAN', 'label_class': 'VARCHAR', 'objective': 'DOUBLE', 'healthy_mean': 'DOUBLE',
        'degraded_mean': 'DOUBLE', 'is_paged': 'BOOLEAN', 'nights_to_page': 'BIGINT', 'units_to_page': 'BIGINT',
        'n_nights': 'BIGINT', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro drill_reports_reject_reason() -%}
case
    when {{ present('drill_result_id') }} is null then 'missing_drill_result_id'
    when {{ utc_timestamp('drilled_at') }} is null then 'bad_drilled_at'
    when {{ present('drill_id') }} is null or {{ present('variant') }} is null or verdict is null
        then 'missing_drill_verdict'
    when metric is null or k is null or stage is null then 'missing_drill_metric'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
