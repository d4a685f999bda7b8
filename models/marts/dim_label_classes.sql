select
    label_class,
    comes_from,
    completeness,
    sampling,
    relevant_from::integer as relevant_from,
    evidence_level
from {{ ref('label_classes') }}
