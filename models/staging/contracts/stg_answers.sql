with landed as (
    select * from {{ landed_rows('answers') }}
),

typed as (
    select
        answer_id,
        {{ present('trace_id') }} as trace_id,
        {{ present('session_id') }} as session_id,
        {{ utc_timestamp('ts') }} as answered_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('ts') }}) as delivered_at,

        -- what was said, on which evidence
        answer_text,
        list_transform(citations, lambda citation: {
            'chunk_id': {{ present('citation.chunk_id') }},
            'quote': citation.quote,
            'claim': citation.claim,
            'supported': citation.supported
        }) as citations,
        list_filter(prompt_chunk_ids, lambda chunk_id: {{ present('chunk_id') }} is not null) as prompt_chunk_ids,
        is_correct,
        schema_valid,
        scores,

        -- by what, at which price
        model,
        prompt_version,
        input_tokens,
        output_tokens,
        cached_tokens,
        cost_usd,
        attempts,
        latency_ms,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
