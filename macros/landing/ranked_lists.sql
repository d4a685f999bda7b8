{#- What staging does to a landed list of {chunk_id, score, rank}, one step each. All are plain
    list expressions, so a list is never exploded to be cleaned. The common list, ranks rising and
    chunks distinct, is told from the others by a cheap test and passed on as it is; so is NULL,
    because one row of another branch makes DuckDB copy the lists of the whole vector. -#}
{% macro in_rank_order(list) -%}
case
    when {{ list }} is null or {{ has_rising_ranks(list) }} then {{ list }}
    when len(list_distinct(list_transform({{ list }}, lambda item: item.rank))) = len({{ list }})
        then list_transform(
            list_sort(list_transform({{ list }}, lambda item: {'rank': item.rank, 'item': item})),
            lambda ranked: ranked.item
        )
    else {{ list }}
end
{%- endmacro %}

{% macro has_rising_ranks(list) -%}
list_reduce(
    list_transform({{ list }}, lambda item: item.rank),
    lambda rank, next_rank: case when rank < next_rank then next_rank end,
    '-infinity'::double
) is not null
{%- endmacro %}

{% macro first_of_each_chunk(list) -%}
case
    -- hashes are counted faster than texts; two that meet only send the list the long way
    when {{ list }} is null or list_unique(list_transform({{ list }}, lambda item: hash(item.chunk_id))) = len({{ list }})
        then {{ list }}
    else list_filter({{ list }}, lambda item, place:
        coalesce(trim(item.chunk_id), '') = '' or list_position({{ chunk_ids(list) }}, item.chunk_id) = place)
end
{%- endmacro %}

{% macro with_rank(list) -%}
list_transform({{ list }}, lambda item, place: {
    'rank': place::integer,
    'chunk_id': {{ present('item.chunk_id') }},
    'score': case when isfinite(item.score) then item.score end
})
{%- endmacro %}

{% macro n_non_finite(list) -%}
len(list_filter({{ list }}, lambda item: not isfinite(item.score)))
{%- endmacro %}

{#- The ids of a list, in its order, NULL where blank. -#}
{% macro chunk_ids(list) -%}
list_transform({{ list }}, lambda item: {{ present('item.chunk_id') }})
{%- endmacro %}

{#- Does no item of a list that has items say anything? A list of bare ids, or of anything else than
    objects, reads so. -#}
{% macro says_nothing(list) -%}
len({{ list }}) > 0 and {{ list }}[1].chunk_id is null and len(list_filter(
    {{ list }}, lambda item: coalesce(item.chunk_id, item.score::varchar, item.rank::varchar) is not null
)) = 0
{%- endmacro %}
