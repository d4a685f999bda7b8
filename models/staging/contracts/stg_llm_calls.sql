with landed as (
    select * from {{ landed_rows('llm_calls') }}
),

typed as (
    select
        call_id,
        {{ present('trace_id') }} as trace_id,
        {{ present('eval_run_id') }} as eval_run_id,
        purpose,
        provider,
        model,
        input_tokens,
        output_tokens,
        cached_tokens,
        cost_usd,
        attempts,
        status,
        latency_ms,
        {{ utc_timestamp('ts') }} as called_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('ts') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
