with landed as (
    select * from {{ landed_rows('feedback') }}
),

identified as (
    select
        *,
        sha256(row(
            session_id, trace_id, ts, chunk_ids, rating, rating_scale, grade, implicit, signal, answer_correct,
            rater_id, label_class, weight, inclusion_probability, dwell_ms
        )::varchar) as content_id
    from landed
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
        try_cast(landed.grade as double)::integer as grade,
        landed.signal,
        landed.dwell_ms,
        landed.answer_correct,

        -- as what it counts (int_feedback says what follows from it)
        landed.implicit as is_implicit,
        landed.label_class,
        coalesce(landed.weight, 1.0) as weight,
        landed.inclusion_probability,

        -- where it came from
        landed.reject_reason,
        landed.rejected_text,
        landed.file_id,
        landed.load_id
    from identified as landed
)

{{ deliveries('typed') }}
