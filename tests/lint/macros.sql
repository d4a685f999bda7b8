{#- Stand-ins for the project's macros, so that the linter parses models without dbt. -#}
{% macro set_affected_days(model) %}{% endmacro %}
{% macro is_affected(day) %}{{ day }} is not null{% endmacro %}
{% macro is_listed(variable, day) %}{{ day }} is not null{% endmacro %}
{% macro current_day_version() %}(select max(day_version) from int_day_versions){% endmacro %}
{% macro is_kept(day) %}{{ day }} is not null{% endmacro %}
{% macro label_lookback_days() %}90{% endmacro %}
{% macro rows_so_far(columns) %}select * from so_far_rows{% endmacro %}
{% macro is_before_as_of(time) %}{{ time }} is not null{% endmacro %}
{% macro highest(column) %}0{% endmacro %}
{% macro landing_path() %}landing{% endmacro %}
{% macro landed_rows(contract) %}landed_rows{% endmacro %}
{% macro deliveries(rows) %}select * from {{ rows }}{% endmacro %}
{% macro staged_deliveries() %}select * from staged_rows{% endmacro %}
{% macro trace_key() %}trace_id{% endmacro %}
{% macro utc_timestamp(column) %}try_cast({{ column }} as timestamp){% endmacro %}
{% macro in_rank_order(list) %}list_sort({{ list }}){% endmacro %}
{% macro first_of_each_chunk(list) %}list_distinct({{ list }}){% endmacro %}
{% macro with_rank(list) %}list_sort({{ list }}){% endmacro %}
{% macro n_non_finite(list) %}len({{ list }}){% endmacro %}
{% macro chunk_ids(list) %}list_sort({{ list }}){% endmacro %}
{% macro rating_label(rating, scale, word_label) %}coalesce({{ rating }}, {{ scale }}, {{ word_label }}){% endmacro %}
{% macro document_of(chunk_id) %}{{ chunk_id }}{% endmacro %}
{% macro stage_cutoffs() %}select 'final' as stage, 1 as k{% endmacro %}
{% macro gain(grade) %}greatest({{ grade }}, 0){% endmacro %}
{% macro gain_exp(grade) %}greatest({{ grade }}, 0){% endmacro %}
{% macro ideal_at(running_sums) %}len({{ running_sums }}){% endmacro %}
{% macro known_until() %}'infinity'::timestamp{% endmacro %}
{% macro known_keys(contract) %}list_distinct({{ contract }}){% endmacro %}
{% macro staged_contracts() %}{% endmacro %}
{% macro present(id) %}coalesce({{ id }}){% endmacro %}
{% macro is_identifiable(completeness, needs, judged_share) %}coalesce({{ completeness }}, {{ needs }}, {{ judged_share }}) is null{% endmacro %}
{% macro sessions_to_decide(estimate, objective, breach_below, std_error, n_eff) %}({{ estimate }} + {{ n_eff }}){% endmacro %}
{% macro unregistered_relation_days() %}select * from relation_days{% endmacro %}
{% macro policy_fingerprint() %}'fingerprint'{% endmacro %}
{% macro current_policy_version() %}(select max(policy_version) from int_policy_versions){% endmacro %}
{% macro ruled_intent(query) %}nullif({{ query }}, ''){% endmacro %}
{% macro on_grid(score, grid) %}coalesce({{ score }}, {{ grid }}){% endmacro %}
{% macro weight_above(weight, score, value, grid) %}coalesce({{ weight }}, {{ score }}, {{ value }}, {{ grid }}){% endmacro %}
{% macro normalised_query(query) %}lower({{ query }}){% endmacro %}
