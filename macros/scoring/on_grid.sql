{#- Metrics with many values stand between two neighbours on their grid: the lower one (the score itself
    where there is no grid), and the weight that goes to the upper one, which keeps the mean. -#}
{% macro on_grid(score, grid) -%}
case when {{ grid }} is null then {{ score }} else round(floor({{ score }} / {{ grid }} + 1e-9) * {{ grid }}, 12) end
{%- endmacro %}

{% macro weight_above(weight, score, value, grid) -%}
greatest(round({{ weight }} * ({{ score }} - {{ value }}) / {{ grid }}), 0)::bigint
{%- endmacro %}
