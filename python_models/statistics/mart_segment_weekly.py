def model(dbt, session):
    from retrieval_quality.estimates import weekly_series

    weeks = dbt.ref("mart_retrieval_quality").filter("window_name = 'week'")
    return weekly_series(weeks.df())
