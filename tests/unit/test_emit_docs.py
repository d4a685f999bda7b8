"""Every Python block of docs/emit.md runs, and lands what it says."""

import json
import re
from pathlib import Path

import pytest

from retrieval_quality.contracts import CONTRACTS
from retrieval_quality.landing_check import check_landing

DOCS = Path(__file__).parents[2] / "docs" / "emit.md"


def test_the_blocks_of_the_docs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), names)  # noqa: S102 - our own documentation
    assert len(blocks) >= 10
    counts: dict[str, int] = {}
    for path in Path("landing").rglob("emit-*.jsonl"):
        contract = path.parent.parent.name
        for line in path.read_text().splitlines():
            CONTRACTS[contract].model_validate(json.loads(line))
            counts[contract] = counts.get(contract, 0) + 1
    assert counts == {"retrieval_traces": 4, "answers": 1, "feedback": 2}
    check_landing(Path("landing"))
    printed = capsys.readouterr().out
    assert "Stats(accepted=6, written=6, queued=0" in printed
    assert "['retrieval']" in printed
