def model(dbt, session):
    from retrieval_quality.exposure import exposure_sensitivity

    raw = dbt.ref("mart_retrieval_quality").filter(
        "window_name = 'trailing_28d' and traffic = 'production' and stage = 'final' "
        "and label_class = 'implicit' and metric = 'precision' and k > 1"
    )
    return exposure_sensitivity(
        dbt.ref("int_exposure_histograms").df(),
        dbt.ref("int_exposure_hits").df(),
        raw.df(),
        dbt.ref("int_examination_propensities").df(),
        confidence=float(dbt.config.meta_get("confidence")),
    )
