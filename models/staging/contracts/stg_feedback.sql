with landed as (
    select * from {{ landed_rows('feedback') }}
),

identified as (
    select
        *,
        lower(trim(rating)) as word,
        sha256(row(
            session_id, trace_id, ts, chunk_ids, rating, rating_scale, grade, implicit, signal, answer_correct,
            rater_id, label_class, weight, inclusion_probability, dwell_ms
        )::varchar) as content_id
    from landed
),

-- looked up in maps: a join could change sides, and with it the order of the lines
signals as (
    select map(list(signal), list(label_class)) as class_of from {{ ref('label_signals') }}
),

rating_words as (
    select map(list(rating_word), list(rating_label)) as label_of from {{ ref('rating_words') }}
),

typed as (
    select
        -- ids
        coalesce({{ present('landed.feedback_id') }}, landed.content_id) as feedback_id,
        {{ present('landed.session_id') }} as session_id,
        {{ present('landed.trace_id') }} as trace_id,
        {{ present('landed.rater_id') }} as rater_id,

        -- times
        {{ utc_timestamp('landed.ts') }} as given_at,
        {{ utc_timestamp('landed.ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('landed.ingested_at') }}, {{ utc_timestamp('landed.ts') }}) as delivered_at,

        -- what was said, and of which chunks
        landed.chunk_ids,
        landed.chunk_ids is null as is_answer_level,
        landed.rating,
        landed.rating_scale,
        {{ rating_label('landed.rating', 'landed.rating_scale', 'rating_words.label_of[word]') }} as rating_label,
        try_cast(landed.grade as double)::integer as grade,
        landed.signal,
        landed.dwell_ms,
        landed.answer_correct,

        -- as what it counts
        coalesce(
            landed.label_class,
            signals.class_of[landed.signal],
            case when landed.implicit then 'implicit' else 'explicit' end
        ) as label_class,
        coalesce(landed.weight, 1.0) as weight,
        landed.inclusion_probability,

        -- where it came from
        landed.reject_reason,
        landed.rejected_text,
        landed.file_id,
        landed.load_id
    from identified as landed
    cross join signals
    cross join rating_words
)

{{ deliveries('typed') }}
