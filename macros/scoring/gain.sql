{#- Gains of a graded judgment (trec_eval's linear gain; Burges' exponential one). A negative grade
    gains nothing. Wide integers: gain x discount (1e15) is summed exactly. -#}
{% macro gain(grade) -%}
greatest({{ grade }}, 0)::hugeint
{%- endmacro %}

{% macro gain_exp(grade) -%}
((1 << greatest({{ grade }}, 0)) - 1)::hugeint
{%- endmacro %}

{#- The ideal DCG of a list cut at k (k = 0: whole), from its running sums; NULL where nothing gains. -#}
{% macro ideal_at(running_sums) -%}
{{ running_sums }}[case when k = 0 then len({{ running_sums }}) else least(k, len({{ running_sums }})) end]::double
{%- endmacro %}
