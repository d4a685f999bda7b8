"""A small demo, landed and built once by the command line, as a user would."""

import pytest
from end_to_end.first_run import AS_OF, FirstRun, Places


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    pytest.importorskip("bm25s")
    from retrieval_quality.demo import build_demo

    places = Places(tmp_path_factory.mktemp("first_run"))
    # few documents and sessions, and still every phase of the demo: index v1, v2, the regression
    demo = build_demo(
        places.landing,
        days=8,
        sessions_per_day=40,
        n_eval_queries=40,
        modules=("argparse", "collections", "csv", "datetime", "json", "logging", "pathlib", "re", "string"),
    )
    return FirstRun(demo, places, places.run("nightly", "--vars", AS_OF))
