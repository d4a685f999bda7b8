{% macro qrels_columns() %}
    {{ return({
        'query_id': 'VARCHAR', 'chunk_id': 'VARCHAR', 'doc_id': 'VARCHAR', 'start_char': 'BIGINT',
        'end_char': 'BIGINT', 'label_class': 'VARCHAR', 'labeller': 'VARCHAR', 'grade': 'VARCHAR',
        'labelled_at': 'VARCHAR', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro qrels_reject_reason() -%}
case
    when {{ present('query_id') }} is null then 'missing_query_id'
    when {{ present('chunk_id') }} is null and {{ present('doc_id') }} is null then 'blank_chunk_id'
    when grade is null then 'missing_grade'
    when not {{ is_grade('grade') }} then 'bad_grade'
    when label_class is not null and not {{ is_label_class('label_class') }} then 'unknown_label_class'
    when labelled_at is not null and {{ utc_timestamp('labelled_at') }} is null then 'bad_labelled_at'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
