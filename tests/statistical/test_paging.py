"""The paging rule on simulated years: few false pages, and a real drop paged soon."""

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.sequential import _SCORES, _tilted, simulate_paging

MEDIAN_NIGHTS = {40: 14, 200: 7, 2_000: 2}


def assert_on_target(frame: pd.DataFrame, slack: float) -> None:
    """Targets: at most .1 false pages a year without day effects, 1 with them; drops paged in time."""
    for row in frame[frame.scenario == "healthy"].itertuples():
        limit = 0.1 if row.night_sd == 0 else 1.0
        assert row.pages_per_year <= limit + slack * max(row.pages_error, 0.02), row
    for row in frame[(frame.scenario == "drop") & (frame.night_sd == 0)].itertuples():
        assert row.median_delay <= MEDIAN_NIGHTS[int(row.units_per_day)], row
        assert row.paged_share == 1
        assert row.pages_per_year <= 0.1 + slack * max(row.pages_error, 0.02)


def test_paging_on_twenty_years() -> None:
    frame = simulate_paging(n_replicates=20)
    assert len(frame) == 12
    assert_on_target(frame, slack=3.0)
    # day effects are what pages: with them, and much traffic, nights are significantly low
    noisy = frame.query("scenario == 'healthy' and night_sd > 0 and units_per_day == 2000").iloc[0]
    assert noisy.pages_per_year > 0
    assert noisy.page_nights_per_year >= noisy.pages_per_year


@pytest.mark.slow
def test_paging_on_four_hundred_years() -> None:
    assert_on_target(simulate_paging(n_replicates=400), slack=0.0)


def test_simulated_laws_have_the_mean_they_are_asked_for() -> None:
    means = np.linspace(0.02, 0.98, 97)
    laws = _tilted(means)
    assert laws @ _SCORES == pytest.approx(means, abs=1e-12)
    assert laws.sum(axis=1) == pytest.approx(np.ones(97))
    assert np.sqrt(_tilted(np.array([0.54])) @ _SCORES**2 - 0.54**2) == pytest.approx(0.269, abs=1e-3)
