def model(dbt, session):
    from retrieval_quality.experiments import experiment_comparisons

    return experiment_comparisons(
        dbt.ref("int_experiment_histograms").df(),
        dbt.ref("int_experiment_denominators").df(),
        dbt.ref("int_experiment_query_differences").df(),
        dbt.ref("int_experiment_arms").df(),
        dbt.ref("int_experiment_units").df(),
        confidence=float(dbt.config.meta_get("confidence")),
        ci_method=dbt.config.meta_get("bootstrap_method"),
    )
