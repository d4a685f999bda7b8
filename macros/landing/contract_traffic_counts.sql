{% macro traffic_counts_columns() %}
    {{ return({
        'day': 'VARCHAR', 'n_queries': 'VARCHAR', 'environment': 'VARCHAR', 'ingested_at': 'VARCHAR'
    }) }}
{% endmacro %}

{% macro traffic_counts_reject_reason() -%}
case
    when day is null then 'missing_day'
    when {{ utc_timestamp('day') }} is null then 'bad_day'
    when n_queries is null then 'missing_n_queries'
    when not coalesce(try_cast(n_queries as double) >= 0 and try_cast(n_queries as bigint) = try_cast(n_queries as double), false)
        then 'bad_n_queries'
    when ingested_at is not null and {{ utc_timestamp('ingested_at') }} is null then 'bad_ingested_at'
end
{%- endmacro %}
