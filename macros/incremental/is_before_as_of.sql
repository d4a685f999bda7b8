{#- Was this known at as_of? Where as_of is not set, everything that landed was. -#}
{% macro is_before_as_of(time) -%}
{%- if var('as_of') -%}
coalesce({{ time }} <= {{ utc_timestamp("'" ~ var('as_of') ~ "'") }}, true)
{%- else -%}
true
{%- endif -%}
{%- endmacro %}

