{#- Any landed time as a UTC timestamp: epoch seconds, ms, µs or ns (number or text), or ISO 8601
    with any offset (none means UTC); NULL where it is no time from 1970 to 2200. The unit of an
    epoch number is told by its size; fractions are kept to the microsecond. A date is looked for
    first: it is the common form, and trying it as a number costs most. -#}
{% macro utc_timestamp(column) -%}
{%- set number = 'try_cast(' ~ column ~ ' as decimal(38, 9))' -%}
case
    when {{ column }} like '____-%'
        then case when left({{ column }}, 4) between '1970' and '2199' then {{ iso_timestamp(column) }} end
    when {{ number }} between 0 and 7258118400 then make_timestamp(({{ number }} * 1000000)::bigint)
    when {{ number }} between 100000000000 and 7258118400000 then make_timestamp(({{ number }} * 1000)::bigint)
    when {{ number }} between 100000000000000 and 7258118400000000 then make_timestamp(({{ number }})::bigint)
    when {{ number }} between 100000000000000000 and 7258118400000000000
        then make_timestamp(floor({{ number }} * 0.001)::bigint)
    when {{ number }} is null and left(trim({{ column }}), 4) between '1970' and '2199'
        then {{ iso_timestamp(column) }}
end
{%- endmacro %}

{% macro iso_timestamp(column) -%}
try_cast({{ column }} as timestamptz) at time zone 'UTC'
{%- endmacro %}
