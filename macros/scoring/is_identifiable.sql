{#- Do labels of this completeness determine a metric with these needs? In a complete class an unjudged
    chunk is not relevant; where a metric says otherwise of it, or the class is not complete, the top k
    has to be judged. -#}
{% macro is_identifiable(completeness, needs, judged_share) -%}
(({{ completeness }} = 'complete' and {{ needs }} <> 'judged_share')
    or ({{ needs }} <> 'complete' and coalesce(round({{ judged_share }}, 9) >= {{ var('min_judged_share') }}, false)))
{%- endmacro %}
