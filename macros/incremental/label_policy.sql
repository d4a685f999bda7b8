{#- What the rows of a built day depend on beside what landed: vars and seeds. A test holds these lists equal to
    what the models that are replaced by day, and all before them, refer to. -#}
{% macro policy_vars() %}
    {{ return([
        'cutoffs', 'document_id_pattern', 'label_lookback_days', 'long_tail_max_sessions', 'max_rank', 'resampling_unit',
        'retention_days', 'segment_dimensions', 'upvote_without_correctness'
    ]) }}
{% endmacro %}

{% macro policy_seeds() %}
    {{ return(['corrections', 'intent_rules', 'label_classes', 'label_signals', 'metric_catalog', 'rank_discounts', 'rating_words']) }}
{% endmacro %}

{#- Their content as one hash, whatever the order of the rows. -#}
{% macro policy_fingerprint() -%}
sha256(concat_ws(
    chr(10),
    {%- for name in policy_vars() %}
    '{{ (name ~ "=" ~ tojson(var(name), sort_keys=true)) | replace("'", "''") }}',
    {%- endfor %}
    {%- for name in policy_seeds() %}
    (select '{{ name }}' || coalesce(string_agg(seed::varchar, chr(10) order by seed::varchar), '') from {{ ref(name) }} as seed)
    {{- ',' if not loop.last }}
    {%- endfor %}
))
{%- endmacro %}

{#- The version of the policy that holds now. -#}
{% macro current_policy_version() -%}
(select max(policy_version) from {{ ref('int_policy_versions') }})
{%- endmacro %}
