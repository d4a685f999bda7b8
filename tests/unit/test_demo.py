"""The demo: a small one, built once, checked from its landed files; and its parts."""

from __future__ import annotations

import builtins
import gzip
import importlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("bm25s")

from retrieval_quality.demo import (
    DEFAULT_END_AT,
    DemoSummary,
    build_demo,
    format_summary,
)
from retrieval_quality.demo.corpus import (
    MIN_BODY_WORDS,
    MIN_QUESTION_WORDS,
    Corpus,
    Docstring,
    build_corpus,
    docstring_passages,
    topic_passages,
)
from retrieval_quality.demo.landing import MARKER, check_landing
from retrieval_quality.demo.search import (
    INDEX_V1,
    INDEX_V2,
    INDEX_V2_BROKEN,
    N_CANDIDATES,
    RERANK_CONTROL,
    TOP_K,
    build_features,
    build_index,
    first_stage,
    rerank,
)
from retrieval_quality.demo.tokens import (
    broken_tokens,
    normalise,
    plain_tokens,
    split_tokens,
    stemmed_tokens,
)
from retrieval_quality.demo.traffic import paraphrase, plan
from retrieval_quality.demo.verdicts import AUDIT_SHARE

MODULES = ("argparse", "asyncio", "collections", "email", "logging", "os", "topics", "typing")
DAYS = 6
SESSIONS = 90
QUERIES = 60

Row = dict[str, Any]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build_corpus(MODULES)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoSummary:
    return small_demo(tmp_path_factory.mktemp("demo") / "landing")


def small_demo(landing: Path, *, seed: int = 7, days: int = DAYS) -> DemoSummary:
    return build_demo(
        landing,
        seed=seed,
        days=days,
        sessions_per_day=SESSIONS,
        n_eval_queries=QUERIES,
        modules=MODULES,
    )


def lines_of(landing: Path, contract: str) -> Iterator[tuple[Path, str]]:
    """(file, line) of a contract, in order, read without any code of the demo."""
    for path in sorted((landing / contract).rglob("*.jsonl*")):
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        for line in text.decode().splitlines():
            yield path, line


def rows_of(landing: Path, contract: str) -> list[Row]:
    """The lines that parse."""
    rows = []
    for _, line in lines_of(landing, contract):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def contents(landing: Path) -> dict[str, bytes]:
    return {p.relative_to(landing).as_posix(): p.read_bytes() for p in sorted(landing.rglob("*")) if p.is_file()}


def planted(demo: DemoSummary, name: str) -> int:
    return next(b.n for b in demo.blemishes if b.name == name)


# --- corpus ----------------------------------------------------------------------------------


def test_passages_are_long_enough_and_hide_their_question(corpus: Corpus) -> None:
    assert len(corpus.passages) > 500
    for passage in corpus.passages:
        assert len(passage.text.split()) >= MIN_BODY_WORDS
        assert passage.chunk_id.rpartition("#")[0] == passage.doc_id
        if passage.question is not None:
            assert len(passage.question.split()) >= MIN_QUESTION_WORDS
            assert normalise(passage.question) not in normalise(passage.text)


def test_ids_texts_and_questions_are_unique(corpus: Corpus) -> None:
    ids = [p.chunk_id for p in corpus.passages]
    questions = [normalise(p.question) for p in corpus.asked if p.question]
    texts = [normalise(p.text) for p in corpus.passages]
    assert len(set(ids)) == len(ids)
    assert len(set(questions)) == len(questions)
    assert len(set(texts)) == len(texts)
    assert {p.kind for p in corpus.passages} >= {"class", "function", "language", "method"}


def test_docstring_is_cut_into_question_and_passages() -> None:
    body = "\n\n".join(f"Paragraph {i} parses the given arguments {'word ' * 60}" for i in range(4))
    doc = Docstring("pkg.parse", "function", f"Parse the given arguments.\n\n{body}")
    first, second = docstring_passages(doc)
    assert (first.chunk_id, second.chunk_id) == ("pkg.parse#0", "pkg.parse#1")
    assert first.question == "Parse the given arguments."
    assert second.question is None
    assert first.question not in first.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("Parse it.\n\n" + "word " * 40, "short summary"),
        ("Parse the given arguments.", "no body"),
        ("Parse the given arguments.\n\nOnly three words.", "short body"),
    ],
)
def test_docstrings_that_cannot_be_asked_give_no_passage(text: str, why: str) -> None:
    assert docstring_passages(Docstring("f", "function", text)) == [], why


def test_signature_line_is_no_summary() -> None:
    text = "parse(args) -> list\n\nParse the given arguments.\n\nThe parse of arguments given " + ("word " * 12)
    (passage,) = docstring_passages(Docstring("f", "function", text))
    assert passage.question == "Parse the given arguments."


def test_repeated_question_is_withdrawn() -> None:
    text = "Parse the given arguments.\n\nParse the given arguments now: " + "word " * 12
    (passage,) = docstring_passages(Docstring("f", "function", text))
    assert passage.question is None


def test_topic_groups_lose_headings_and_their_first_sentence() -> None:
    text = (
        'The "assert" statement\n**********************\n\nAssert statements insert debugging '
        "assertions. A debugging assert statement inserts " + "word " * 12
    )
    (passage,) = topic_passages(Docstring("assert", "language", text))
    assert passage.chunk_id == "topic:assert#0"
    assert passage.question == "Assert statements insert debugging assertions."
    assert "***" not in passage.text
    assert 'The "assert" statement' not in passage.text


def test_corpus_reads_source_without_importing_it() -> None:
    code = (
        "import sys; from retrieval_quality.demo.corpus import build_corpus; "
        "c = build_corpus(('antigravity', 'imaplib', 'tkinter', 'turtle', 'topics')); "
        "print(len(c.asked) > 50, {'antigravity', 'imaplib', 'tkinter', 'turtle'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True set()"


def test_missing_topics_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without_topics(name: str) -> ModuleType:
        if name.startswith("pydoc_data"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", without_topics)
    assert not [p for p in build_corpus(MODULES).passages if p.kind == "language"]


def test_too_little_documentation_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="too little documentation"):
        build_corpus(("this",))


# --- search ----------------------------------------------------------------------------------


def test_tokenizers() -> None:
    assert plain_tokens("The readLine() of my_file") == ["the", "readline", "of", "my_file"]
    assert split_tokens("The readLine() of my_file") == [
        *("readline", "read", "line", "my_file", "file"),
    ]
    assert broken_tokens("Return file names") == ["file", "names"]
    assert stemmed_tokens("returns returned entries pass") == ["return", "return", "entry", "pass"]


def test_both_stages_return_ordered_lists(corpus: Corpus) -> None:
    features = build_features(corpus.passages)
    index = build_index(INDEX_V2, corpus.passages)
    query = "parse the command line arguments"
    candidates = first_stage(index, query)
    final = rerank(RERANK_CONTROL, features, query, candidates)
    assert len(candidates) == N_CANDIDATES
    assert len(final) == TOP_K
    for hits in (candidates, final):
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
        assert len({h.passage for h in hits}) == len(hits)
    assert {h.passage for h in final} <= {h.passage for h in candidates}


def test_first_stage_agrees_with_bm25_computed_by_hand(corpus: Corpus) -> None:
    passages = corpus.passages[:300]
    documents = [plain_tokens(p.text) for p in passages]
    mean = sum(map(len, documents)) / len(documents)
    query = plain_tokens("logging handler for a stream")

    def score(document: list[str]) -> float:
        counts = Counter(document)
        total = 0.0
        for token in query:
            n = sum(token in d for d in documents)
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            norm = INDEX_V1.k1 * (1 - INDEX_V1.b + INDEX_V1.b * len(document) / mean)
            total += idf * counts[token] / (counts[token] + norm)
        return total

    hits = first_stage(build_index(INDEX_V1, passages), "logging handler for a stream")
    assert hits
    for hit in hits:
        assert hit.score == pytest.approx(score(documents[hit.passage]), abs=1e-3)


@pytest.mark.parametrize("query", ["", "zzzzqqq", "the of and"])
def test_nothing_in_common_finds_nothing(corpus: Corpus, query: str) -> None:
    candidates = first_stage(build_index(INDEX_V2, corpus.passages), query)
    assert candidates == ()
    assert rerank(RERANK_CONTROL, build_features(corpus.passages), query, candidates) == ()


def test_missing_bm25s_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without_bm25s(name: str, *args: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "bm25s":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setitem(sys.modules, "bm25s", None)
    monkeypatch.setattr(builtins, "__import__", without_bm25s)
    with pytest.raises(ImportError, match=r"pip install 'retrieval-quality\[demo\]'"):
        small_demo(tmp_path / "landing")
    assert not (tmp_path / "landing").exists()


# --- calendar and queries --------------------------------------------------------------------


def test_default_calendar() -> None:
    schedule = plan(DEFAULT_END_AT, 28)
    assert schedule.days[0] == date(2026, 11, 2)
    assert schedule.days[-1] == date(2026, 11, 29)
    assert schedule.experiment_on == date(2026, 11, 9)
    assert (schedule.canary_on, schedule.rollout_on) == (date(2026, 11, 10), date(2026, 11, 12))
    assert schedule.regression_on == date(2026, 11, 24)
    assert schedule.main_index(date(2026, 11, 11)) == INDEX_V1.version
    assert schedule.main_index(date(2026, 11, 12)) == INDEX_V2.version
    assert schedule.main_index(date(2026, 11, 24)) == INDEX_V2_BROKEN.version


@pytest.mark.parametrize("days", range(4, 60))
def test_every_calendar_has_three_periods(days: int) -> None:
    schedule = plan(DEFAULT_END_AT, days)
    mains = [schedule.main_index(day) for day in schedule.days]
    assert list(dict.fromkeys(mains)) == ["pydocs-v1", "pydocs-v2", "pydocs-v2.1"]
    for day in schedule.days:
        assert sum(share for _, share in schedule.index_shares(day)) == pytest.approx(1)


def test_calendar_refuses_what_it_cannot_plan() -> None:
    with pytest.raises(ValueError, match="time zone"):
        plan(datetime(2026, 11, 29), 28)
    with pytest.raises(ValueError, match="at least 4"):
        plan(datetime(2026, 11, 29, tzinfo=UTC), 3)


def test_paraphrases_are_stable_and_differ() -> None:
    question = "Return the names of the files in the given directory as a list of strings."
    variants = [paraphrase(question, "7", i) for i in range(3)]
    assert variants == [paraphrase(question, "7", i) for i in range(3)]
    assert len({*variants, question}) == 4
    assert all(len(v.split()) >= 2 for v in variants)


# --- the landed files ------------------------------------------------------------------------


def test_layout_and_accounting(demo: DemoSummary) -> None:
    folders = {p.name for p in demo.landing.iterdir() if p.is_dir()}
    assert folders == {"retrieval_traces", "feedback", "queries", "qrels", "eval_runs"}
    for contract in demo.contracts:
        lines = list(lines_of(demo.landing, contract.contract))
        assert len(lines) == contract.n_lines
        assert len({path for path, _ in lines}) == contract.n_files
    days = {p.name for p in (demo.landing / "retrieval_traces").iterdir()}
    assert days == {f"dt={day}" for day in demo.schedule.days}
    suffixes = {p.suffix for p in (demo.landing / "retrieval_traces").rglob("part-*")}
    assert suffixes == {".gz", ".jsonl"}


def test_lines_lie_below_the_day_of_their_delivery(demo: DemoSummary) -> None:
    end = int(demo.schedule.end_at.timestamp())
    for contract in ("retrieval_traces", "feedback"):
        for path, line in lines_of(demo.landing, contract):
            if line.endswith("}"):
                row = json.loads(line)
                day = datetime.fromtimestamp(row["ingested_at"], tz=UTC).date()
                assert path.parent.name == f"dt={day}"
                assert row["ts"] <= row["ingested_at"] <= end


def test_traces_follow_the_contract(demo: DemoSummary) -> None:
    traces = rows_of(demo.landing, "retrieval_traces")
    for row in traces:
        is_eval = "eval_run_id" in row
        assert row["environment"] == ("eval" if is_eval else "production")
        assert ("query_id" in row) == is_eval
        assert ("experiment_id" in row) == ("experiment_bucket" in row)
        assert not (is_eval and "experiment_id" in row)
        assert (row["score_type"], row["higher_is_better"]) == ("bm25", True)
        assert [h["rank"] for h in row["retrieved"]] == list(range(1, len(row["retrieved"]) + 1))
        assert len(row["retrieved"]) <= row["top_k"]
        known = {h["chunk_id"] for h in row["candidates"]}
        assert {h["chunk_id"] for h in row["retrieved"]} <= known
    production = [r for r in traces if r["environment"] == "production"]
    buckets = Counter(r.get("experiment_bucket") for r in production)
    assert set(buckets) == {None, "control", "treatment"}
    assert 0.3 < buckets["treatment"] / (buckets["treatment"] + buckets["control"]) < 0.7
    assert 0.5 < sum("intent" in r for r in production) / len(production) < 0.85
    arms: dict[str, set[str]] = {}
    for row in production:
        if "experiment_bucket" in row:
            unit = str(row.get("user_id", row["session_id"]))
            arms.setdefault(unit, set()).add(row["experiment_bucket"])
    assert {len(a) for a in arms.values()} == {1}
    sessions = Counter(r["session_id"] for r in {r["trace_id"]: r for r in production}.values())
    assert set(sessions.values()) <= {1, 2, 3}
    assert len(sessions) <= demo.n_sessions


def test_every_night_is_evaluated_on_the_main_index(demo: DemoSummary) -> None:
    runs = rows_of(demo.landing, "eval_runs")
    queries = {r["query_id"]: r for r in rows_of(demo.landing, "queries")}
    qrels = rows_of(demo.landing, "qrels")
    traces = [r for r in rows_of(demo.landing, "retrieval_traces") if "eval_run_id" in r]
    assert [r["eval_run_id"] for r in runs] == [f"eval-{day}" for day in demo.schedule.days]
    assert {r["query_set"] for r in queries.values()} == {"synthetic"}
    assert len(queries) == len(qrels) == QUERIES
    assert {r["query_id"] for r in qrels} == set(queries)
    assert {r["label_class"] for r in qrels} == {"synthetic"}
    for run in runs:
        mine = [t for t in traces if t["eval_run_id"] == run["eval_run_id"]]
        assert sorted(t["query_id"] for t in mine) == sorted(queries)
        assert all(t["query"] == queries[t["query_id"]]["query"] for t in mine)
        for key in ("index_version", "chunker_version", "embedding_model", "reranker_version"):
            assert {t[key] for t in mine} == {run[key]}
        assert (run["kind"], run["code_sha"]) == ("scheduled", "demo")
        started = datetime.fromisoformat(run["started_at"]).timestamp()
        assert min(t["ts"] for t in mine) == started


def test_the_regression_is_visible_and_agrees_with_the_summary(demo: DemoSummary) -> None:
    relevant = {r["query_id"]: r["chunk_id"] for r in rows_of(demo.landing, "qrels")}
    traces = [r for r in rows_of(demo.landing, "retrieval_traces") if "eval_run_id" in r]
    recall: dict[str, float] = {}
    for night in demo.nights:
        mine = [t for t in traces if t["eval_run_id"] == night.eval_run_id]
        hits = [relevant[t["query_id"]] in [h["chunk_id"] for h in t["retrieved"][:5]] for t in mine]
        assert night.recall_5 == pytest.approx(sum(hits) / len(hits))
        recall[night.index_version] = night.recall_5
    assert 0.6 <= recall["pydocs-v2"] <= 0.95
    assert recall["pydocs-v2"] >= recall["pydocs-v1"]
    assert recall["pydocs-v2"] - recall["pydocs-v2.1"] >= 0.15


def test_feedback_follows_the_contract_and_is_called_simulated(demo: DemoSummary) -> None:
    feedback = [row for row in rows_of(demo.landing, "feedback") if row["signal"] not in ("audit", "judge")]
    traces = {r["trace_id"]: r for r in rows_of(demo.landing, "retrieval_traces")}
    assert all(row["simulated"] is True for row in feedback)
    assert {row["signal"] for row in feedback} == {"copy", "reformulation", "thumb"}
    assert len({row["feedback_id"] for row in feedback}) == len(feedback)
    for row in feedback:
        assert row["implicit"] == (row["signal"] != "thumb")
        assert row["rating"] in (0, 1)
        assert row["signal"] != "copy" or (row["rating"] == 1 and row["dwell_ms"] > 0)
        assert row["signal"] != "reformulation" or row["rating"] == 0
        trace = traces.get(row.get("trace_id", ""))
        if trace is not None:
            assert trace["session_id"] == row["session_id"]
            assert set(row.get("chunk_ids", [])) <= {h["chunk_id"] for h in trace["retrieved"]}
    named = sum("chunk_ids" in row for row in feedback) / len(feedback)
    assert 0.5 < named < 0.95
    assert any("answer_correct" in row for row in feedback)
    assert 0.12 < demo.n_sessions_with_feedback / demo.n_sessions < 0.24


def test_verdicts_judge_whole_lists_of_a_random_sample(demo: DemoSummary) -> None:
    verdicts = [row for row in rows_of(demo.landing, "feedback") if row["signal"] in ("audit", "judge")]
    shown: dict[str, set[str]] = {}
    for row in rows_of(demo.landing, "retrieval_traces"):
        shown[row["trace_id"]] = {hit["chunk_id"] for hit in row["retrieved"]}
    judged: dict[tuple[str, str], list[str]] = {}
    for row in verdicts:
        assert row["simulated"] is True
        assert row.get("inclusion_probability") == (AUDIT_SHARE if row["signal"] == "audit" else None)
        judged.setdefault((row["signal"], row["trace_id"]), []).extend(row["chunk_ids"])
    for (_, trace_id), chunks in judged.items():
        assert sorted(chunks) == sorted(shown[trace_id])
    assert 0.03 < demo.n_sessions_audited / demo.n_sessions < 0.1
    assert 0.25 < demo.n_sessions_judged / demo.n_sessions < 0.42
    audited = {trace_id for signal, trace_id in judged if signal == "audit"}
    assert audited <= {trace_id for signal, trace_id in judged if signal == "judge"}


def test_blemishes_are_counted_exactly(demo: DemoSummary) -> None:
    lines = [line for _, line in lines_of(demo.landing, "retrieval_traces")]
    traces = rows_of(demo.landing, "retrieval_traces")
    feedback = rows_of(demo.landing, "feedback")
    n_feedback_lines = sum(1 for _ in lines_of(demo.landing, "feedback"))
    n_malformed = len(lines) - len(traces) + n_feedback_lines - len(feedback)
    assert n_malformed == planted(demo, "malformed_lines") == 2
    by_id = {r["trace_id"]: r for r in traces}
    assert len(traces) - len(by_id) == planted(demo, "duplicate_deliveries") > 0
    unique = list(by_id.values())
    production = [r for r in unique if r["environment"] == "production"]
    empty = [r for r in production if not r["retrieved"]]
    assert len(empty) == planted(demo, "no_results") > 0
    chunks = [[h["chunk_id"] for h in r["retrieved"]] for r in unique]
    assert sum(len(set(c)) < len(c) for c in chunks) == planted(demo, "repeated_chunks") > 0
    scores = [h["score"] for r in unique for h in r["retrieved"]]
    assert sum(s is None for s in scores) == planted(demo, "null_scores")
    assert sum(s is not None and math.isnan(s) for s in scores) == planted(demo, "nan_scores") > 0
    late = [r for r in feedback if r["ingested_at"] - r["ts"] > 3600]
    assert len(late) == planted(demo, "late_feedback") > 0
    sessions = {r["session_id"] for r in unique}
    orphans = [r for r in feedback if r["session_id"] not in sessions]
    assert len(orphans) == planted(demo, "orphan_feedback") == 3


def test_summary_is_frozen_and_says_simulated(demo: DemoSummary) -> None:
    assert "simulated" in format_summary(demo)
    with pytest.raises(FrozenInstanceError):
        demo.seed = 8  # type: ignore[misc]


# --- determinism and other people's files ----------------------------------------------------


def test_another_process_writes_identical_files(demo: DemoSummary, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from retrieval_quality.demo import build_demo; "
        f"build_demo(Path(sys.argv[1]), days={DAYS}, sessions_per_day={SESSIONS}, "
        f"n_eval_queries={QUERIES}, modules={MODULES!r})"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "landing")],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Kathmandu"},
    )
    assert contents(tmp_path / "landing") == contents(demo.landing)


def test_rewriting_keeps_own_contracts_and_removes_stale_files(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / ".gitkeep").touch()
    small_demo(landing, days=5)
    own = landing / "alert_events" / "part-0000.jsonl"
    own.parent.mkdir()
    own.write_text("{}\n")
    summary = small_demo(landing, seed=8, days=4)
    days = {p.name for p in (landing / "retrieval_traces").iterdir()}
    assert days == {f"dt={day}" for day in summary.schedule.days}
    assert own.read_text() == "{}\n"
    before = contents(landing)
    small_demo(landing, seed=8, days=4)
    assert contents(landing) == before


@pytest.mark.parametrize("relative", ["retrieval_traces/mine.jsonl", "alert_events/a.jsonl"])
def test_user_data_is_refused_and_untouched(tmp_path: Path, relative: str) -> None:
    path = tmp_path / relative
    path.parent.mkdir(parents=True)
    path.write_text('{"mine": 1}\n')
    with pytest.raises(ValueError, match="did not write"):
        small_demo(tmp_path)
    assert contents(tmp_path) == {relative: b'{"mine": 1}\n'}


def test_a_file_added_to_a_demo_is_refused(tmp_path: Path) -> None:
    marker = {"files": ["feedback/dt=2026-11-02/part-0000.jsonl"]}
    (tmp_path / MARKER).write_text(json.dumps(marker))
    assert check_landing(tmp_path) == tuple(marker["files"])
    (tmp_path / "feedback").mkdir()
    (tmp_path / "feedback" / "mine.jsonl").touch()
    with pytest.raises(ValueError, match=r"feedback/mine\.jsonl"):
        check_landing(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": ["../other.jsonl"]}'])
def test_a_marker_of_somebody_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(ValueError, match=r"\.demo"):
        check_landing(tmp_path)


def test_counts_below_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        build_demo(tmp_path / "landing", sessions_per_day=0)
