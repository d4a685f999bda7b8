with so_far as (
    {{ rows_so_far({'policy_version': 'integer', 'fingerprint': 'varchar'}) }}
),

policy as (
    select {{ policy_fingerprint() }} as fingerprint
)

select
    (select coalesce(max(policy_version), 0) + 1 from so_far) as policy_version,
    policy.fingerprint
from policy
-- a policy that comes back is a change too
where policy.fingerprint is distinct from (select max_by(fingerprint, policy_version) from so_far)
