with landed as (
    select * from {{ landed_rows('qrels') }}
),

typed as (
    select
        sha256(row(
            query_id, chunk_id, doc_id, start_char, end_char, coalesce(label_class, 'golden'), coalesce(labeller, '')
        )::varchar) as qrel_id,
        query_id,
        {{ present('chunk_id') }} as chunk_id,
        {{ present('doc_id') }} as doc_id,
        start_char,
        end_char,
        coalesce(label_class, 'golden') as label_class,
        coalesce(labeller, '') as labeller,
        try_cast(grade as double)::integer as grade,
        {{ utc_timestamp('labelled_at') }} as labelled_at,
        {{ utc_timestamp('ingested_at') }} as ingested_at,
        coalesce({{ utc_timestamp('ingested_at') }}, {{ utc_timestamp('labelled_at') }}) as delivered_at,
        reject_reason,
        rejected_text,
        file_id,
        load_id
    from landed
)

{{ deliveries('typed') }}
