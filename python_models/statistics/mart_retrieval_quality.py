def model(dbt, session):
    from retrieval_quality.estimates import window_estimates

    return window_estimates(
        dbt.ref("int_window_histograms").df(),
        dbt.ref("int_window_denominators").df(),
        dbt.ref("int_window_clusters").df(),
        resampling_unit=dbt.config.meta_get("resampling_unit"),
        confidence=float(dbt.config.meta_get("confidence")),
        ci_method=dbt.config.meta_get("bootstrap_method"),
    )
