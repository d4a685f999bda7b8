{#- How many units it takes to tell a mean from the nearer edge of an objective, by a two-sided 95 % bound
    at power 80 %: (1.96 + 0.84)^2 sd^2 / distance^2. NULL between the edges, where no number decides. -#}
{% macro sessions_to_decide(estimate, objective, breach_below, std_error, n_eff) -%}
7.85 * pow({{ std_error }}, 2) * {{ n_eff }}
    / nullif(pow(greatest({{ estimate }} - {{ objective }}, {{ breach_below }} - {{ estimate }}, 0), 2), 0)
{%- endmacro %}
