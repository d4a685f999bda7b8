def model(dbt, session):
    from retrieval_quality.corrections import corrected_estimates

    return corrected_estimates(
        dbt.ref("int_window_pairs").df(),
        dbt.ref("int_window_joint").df(),
        dbt.ref("int_window_unlabelled").df(),
        dbt.ref("int_window_feedback").df(),
        dbt.ref("int_window_places").df(),
        dbt.ref("int_window_shown_places").df(),
        confidence=float(dbt.config.meta_get("confidence")),
    )
