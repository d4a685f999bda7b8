{#- The grain of a model: no two rows agree in all these columns (NULL agrees with NULL). What was tested in its
    night is not read again: `among_newest_by` names the column whose highest value marks the rows to compare
    with one another (days are replaced whole), `newest_keys_by` the one that marks the rows whose key is looked
    up among all rows. -#}
{% test unique_grain(model, columns, among_newest_by=none, newest_keys_by=none) %}
{%- set newest_by = among_newest_by or newest_keys_by -%}
{%- set newest -%}
where {{ newest_by }} = (select max({{ newest_by }}) from {{ model }})
{%- endset -%}
select {{ columns | join(', ') }}, count(*) as n_rows
from {{ model }}
{% if among_newest_by -%}
{{ newest }}
{% elif newest_keys_by -%}
where {{ columns | join(', ') }} in (select {{ columns | join(', ') }} from {{ model }} {{ newest }})
{% endif -%}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
