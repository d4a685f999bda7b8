{#- Was this known at as_of? Where as_of is not set, everything that landed was. -#}
{% macro is_before_as_of(time) -%}
coalesce({{ time }} <= {{ known_until() }}, true)
{%- endmacro %}

{% macro known_until() -%}
{%- if var('as_of') -%}
{{ utc_timestamp("'" ~ var('as_of') ~ "'") }}
{%- else -%}
'infinity'::timestamp
{%- endif -%}
{%- endmacro %}
