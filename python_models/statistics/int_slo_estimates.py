def model(dbt, session):
    from retrieval_quality.verdicts import slo_estimates

    return slo_estimates(
        dbt.ref("int_slo_histograms").df(),
        dbt.ref("int_slo_denominators").df(),
        dbt.ref("int_slo_clusters").df(),
        resampling_unit=dbt.config.meta_get("resampling_unit"),
        confidence=float(dbt.config.meta_get("confidence")),
        ci_method=dbt.config.meta_get("bootstrap_method"),
    )
