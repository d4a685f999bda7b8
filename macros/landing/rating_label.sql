{#- positive | negative | neutral | unknown by the declared scale; what cannot be told is unknown,
    never negative. Scales: thumb (default: 1, 0, -1 or a word of seeds/rating_words.csv), signed
    (sign decides), stars (1-5, 3 is neutral), unit (0..1, from .5 positive). -#}
{% macro rating_label(rating, scale, word_label) -%}
case
    when {{ word_label }} is not null then {{ word_label }}
    when try_cast({{ rating }} as double) is null or isnan(try_cast({{ rating }} as double)) then 'unknown'
    when {{ scale }} = 'stars' then case
        when try_cast({{ rating }} as double) > 3 then 'positive'
        when try_cast({{ rating }} as double) = 3 then 'neutral'
        else 'negative'
    end
    when {{ scale }} = 'unit' then case
        when try_cast({{ rating }} as double) >= 0.5 then 'positive'
        else 'negative'
    end
    when {{ scale }} = 'signed' then case
        when try_cast({{ rating }} as double) > 0 then 'positive'
        when try_cast({{ rating }} as double) = 0 then 'neutral'
        else 'negative'
    end
    when coalesce({{ scale }}, 'thumb') <> 'thumb' then 'unknown'
    when try_cast({{ rating }} as double) = 1 then 'positive'
    when try_cast({{ rating }} as double) in (0, -1) then 'negative'
    else 'unknown'
end
{%- endmacro %}
