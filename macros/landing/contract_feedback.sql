{% macro feedback_columns() %}
    {{ return({
        'feedback_id': 'VARCHAR', 'session_id': 'VARCHAR', 'trace_id': 'VARCHAR', 'ts': 'VARCHAR',
        'chunk_ids': 'VARCHAR[]', 'rating': 'VARCHAR', 'rating_scale': 'VARCHAR', 'grade': 'VARCHAR',
        'implicit': 'BOOLEAN', 'signal': 'VARCHAR', 'answer_correct': 'BOOLEAN', 'rater_id': 'VARCHAR',
        'label_class': 'VARCHAR', 'weight': 'DOUBLE', 'inclusion_probability': 'DOUBLE',
        'dwell_ms': 'DOUBLE', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro feedback_reject_reason() -%}
case
    when {{ present('session_id') }} is null and {{ present('trace_id') }} is null then 'missing_session_and_trace'
    when ts is null then 'missing_ts'
    when {{ utc_timestamp('ts') }} is null then 'bad_ts'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
    when ingested_at is not null and {{ utc_timestamp('ts') }} > {{ utc_timestamp('ingested_at') }} + interval 1 hour
        then 'future_ts'
    when grade is not null and not {{ is_grade('grade') }} then 'bad_grade'
    when list_contains(list_transform(chunk_ids, lambda id: coalesce(trim(id), '') = ''), true)
        then 'blank_chunk_id'
    when weight is not null and not coalesce(abs(weight) <= 1000, false) then 'bad_weight'
    when inclusion_probability is not null
        and not coalesce(inclusion_probability > 0 and inclusion_probability <= 1, false)
        then 'bad_inclusion_probability'
    when label_class is not null and not {{ is_label_class('label_class') }} then 'unknown_label_class'
end
{%- endmacro %}

{#- Grades are whole numbers, as in TREC judgments; the range keeps gains and their sums exact. -#}
{% macro is_grade(column) -%}
coalesce(try_cast({{ column }} as double) = round(try_cast({{ column }} as double))
    and try_cast({{ column }} as double) between -10 and 10, false)
{%- endmacro %}

{% macro is_label_class(column) -%}
({{ column }} in (select label_class from {{ ref('label_classes') }} where is_landed))
{%- endmacro %}
