"""dbt's own unit tests: a night leaves them out, so they run here."""

from __future__ import annotations

import re
from pathlib import Path

from support import PROJECT, Warehouse


def test_every_unit_test_of_the_project_passes(tmp_path: Path) -> None:
    texts = [file.read_text() for file in (PROJECT / "models").rglob("unit_tests.yml")]
    n_written = sum(len(re.findall(r"^  - name: ", text, re.MULTILINE)) for text in texts)
    warehouse = Warehouse(tmp_path)
    n_without = sum(warehouse.build().counts.values())
    n_with = sum(warehouse.build(unit_tests=True).counts.values())
    assert n_with - n_without == n_written >= 20
