def model(dbt, session):
    from retrieval_quality.exposure import examination_propensities

    return examination_propensities(
        dbt.ref("int_rank_variation").df(),
        dbt.ref("int_examination_depths").df(),
        confidence=float(dbt.config.meta_get("confidence")),
    )
