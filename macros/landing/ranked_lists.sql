{#- What staging does to a landed list of {chunk_id, score, rank}, one step each. All are plain
    list expressions, so a list is never exploded to be cleaned. -#}
{% macro in_rank_order(list) -%}
case
    when len(list_distinct(list_transform({{ list }}, lambda item: item.rank))) = len({{ list }})
        then list_transform(
            list_sort(list_transform({{ list }}, lambda item: {'rank': item.rank, 'item': item})),
            lambda ranked: ranked.item
        )
    else {{ list }}
end
{%- endmacro %}

{% macro first_of_each_chunk(list) -%}
case
    when len(list_distinct({{ chunk_ids(list) }})) = len(list_filter({{ chunk_ids(list) }}, lambda id: id is not null))
        then {{ list }}
    else list_filter({{ list }}, lambda item, place:
        coalesce(trim(item.chunk_id), '') = '' or list_position({{ chunk_ids(list) }}, item.chunk_id) = place)
end
{%- endmacro %}

{% macro with_rank(list) -%}
list_transform({{ list }}, lambda item, place: {
    'rank': place::integer,
    'chunk_id': case when trim(item.chunk_id) <> '' then item.chunk_id end,
    'score': case when isfinite(item.score) then item.score end
})
{%- endmacro %}

{% macro n_non_finite(list) -%}
len(list_filter({{ list }}, lambda item: not isfinite(item.score)))
{%- endmacro %}

{#- The ids of a list, in its order, NULL where blank. -#}
{% macro chunk_ids(list) -%}
list_transform({{ list }}, lambda item: case when trim(item.chunk_id) <> '' then item.chunk_id end)
{%- endmacro %}
