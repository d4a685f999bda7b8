def model(dbt, session):
    from retrieval_quality.quarantine import with_raw_lines

    dbt.ref("stg_accepted_lines")  # every contract is staged by then, and its rejected lines are known
    rejected = dbt.ref("stg_rejected_lines")
    if dbt.is_incremental:
        rejected = rejected.filter(f"file_id not in (select file_id from {dbt.this})")
    registered = dbt.ref("stg_landing_files").project("file_id, size_bytes, modified_at")
    return with_raw_lines(rejected.df(), registered.df())
