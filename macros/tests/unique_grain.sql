{#- The grain of a model: no two rows agree in all these columns (NULL agrees with NULL). -#}
{% test unique_grain(model, columns) %}
select {{ columns | join(', ') }}, count(*) as n_rows
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
