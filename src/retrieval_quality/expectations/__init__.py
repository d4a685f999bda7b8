"""The landing contract: what is expected of newly landed lines before anything is built from them.

Expectations are rows of `seeds/landing_expectations.csv`; Great Expectations evaluates them on
frames that DuckDB makes of the new files. Its import costs seconds, so it waits until there is
something to evaluate.
"""

from retrieval_quality.expectations.report import CheckRow, LandingBlocked, LandingReport
from retrieval_quality.expectations.run import run_landing_checks
from retrieval_quality.expectations.seed import ExpectationsError

__all__ = ["CheckRow", "ExpectationsError", "LandingBlocked", "LandingReport", "run_landing_checks"]
