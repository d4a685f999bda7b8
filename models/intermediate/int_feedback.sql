with feedback as (
    select * from {{ ref('stg_feedback') }}
),

rating_words as (
    select * from {{ ref('rating_words') }}
),

signals as (
    select * from {{ ref('label_signals') }}
)

select
    feedback.* exclude (is_implicit, label_class),
    {{ rating_label('feedback.rating', 'feedback.rating_scale', 'rating_words.rating_label') }} as rating_label,
    coalesce(
        feedback.label_class, signals.label_class, case when feedback.is_implicit then 'implicit' else 'explicit' end
    ) as label_class
from feedback
left join rating_words on lower(trim(feedback.rating)) = rating_words.rating_word
left join signals on feedback.signal = signals.signal
