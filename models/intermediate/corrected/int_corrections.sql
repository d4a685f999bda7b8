with pairs as (
    select * from {{ ref('corrections') }}
),

classes as (
    select
        label_class,
        -- synthetic questions are a random sample, but of chunks and not of traffic
        sampling = 'random' and label_class <> 'synthetic' as is_random_traffic
    from {{ ref('label_classes') }}
),

checked as (
    select
        pairs.*,
        case
            when trusted.is_random_traffic and (cheap.is_random_traffic or pairs.is_zero_without_signal) then 'random'
            else 'not_random'
        end as sampling,
        case
            when trusted.label_class is null then 'no label class is called ' || pairs.trusted_class
            when cheap.label_class is null then 'no label class is called ' || pairs.cheap_class
            when pairs.trusted_class = pairs.cheap_class then 'a class cannot correct itself'
            when pairs.is_zero_without_signal is null then 'is_zero_without_signal is missing'
            when count(*) over (partition by pairs.trusted_class, pairs.cheap_class) > 1 then 'this pair is there twice'
        end as problem
    from pairs
    left join classes as trusted on pairs.trusted_class = trusted.label_class
    left join classes as cheap on pairs.cheap_class = cheap.label_class
)

select * exclude (problem)
from checked
where case when problem is null then true else error('seeds/corrections.csv: ' || cheap_class || ': ' || problem) end
