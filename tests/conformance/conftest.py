"""Built once per session: the scoring SQL alone, the published runs, the random comparisons."""

import pytest
from conformance import matrix, random_runs
from conformance.matrix import Suite
from conformance.random_runs import PeerComparisons
from conformance.real_runs import Published, publish_runs
from conformance.scoring import Scoring, compile_scoring


@pytest.fixture(scope="session")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Scoring:
    return compile_scoring(tmp_path_factory.mktemp("scoring"))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def compared_random_runs(scoring: Scoring) -> PeerComparisons:
    return random_runs.compare_batches(scoring)


@pytest.fixture(scope="session")
def suites(scoring: Scoring, published: Published, compared_random_runs: PeerComparisons) -> tuple[Suite, ...]:
    return matrix.suites(scoring, published, compared_random_runs)
