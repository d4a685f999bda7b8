"""How often the paging rule pages on healthy traffic, and how soon after a real drop: simulated years.

    .venv/bin/python benchmarks/paging.py [--years 400] [--json paging.json]

Prints the Markdown table of docs/statistics.md. Everything is simulated; the seed is fixed, so the same
numpy gives the same table. 400 years take about a minute of one core.
"""

import argparse
import sys
from pathlib import Path

from retrieval_quality.sequential import paging_table, simulate_paging


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=400, help="simulated years, and drops, per row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the frame, one record per scenario")
    options = parser.parse_args()
    frame = simulate_paging(n_replicates=options.years)
    sys.stdout.write(paging_table(frame))
    if options.json:
        options.json.write_text(frame.to_json(orient="records", indent=2))


if __name__ == "__main__":
    main()
