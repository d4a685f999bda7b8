{#- The ranks at which the lists of each stage are cut, one row per stage and k; 0 is the whole list. -#}
{% macro stage_cutoffs() -%}
{%- for stage, ranks in checked_cutoffs().items() -%}
select '{{ stage }}' as stage, unnest({{ ([0] + ranks) | unique | sort | list }})::integer as k
{{- ' union all ' if not loop.last }}
{%- endfor -%}
{%- endmacro %}
