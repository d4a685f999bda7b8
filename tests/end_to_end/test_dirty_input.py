"""Dirty input through the whole path: files land, `dbt build` runs, and the tables say what became of them.

First the shared cases, whose folders say what is expected; then random files, every reason to turn
a line away, and every form of a time and an id.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import PROJECT, SHARED, Warehouse, needs_shared

from retrieval_quality.build import BuildFailed
from retrieval_quality.contracts import CONTRACTS

# --- the shared cases ------------------------------------------------------------------------

DIRTY = SHARED / "data" / "dirty"
FOLDERS = sorted(folder.name for folder in DIRTY.iterdir() if folder.is_dir()) if DIRTY.is_dir() else []
VARS = {"as_of": "2027-02-01", "label_lookback_days": 30, "max_quarantined_share": 1.0}
PREFIXED = re.compile(rb'("(?:session_id|trace_id|query_id|index_version)"\s*:\s*")')
# trec_eval's names for what fct_query_scores calls otherwise, and where it cuts
MEASURES = {
    "recip_rank": ("reciprocal_rank", 0),
    "P_5": ("precision", 5),
    "recall_5": ("recall", 5),
    "ndcg": ("ndcg", 0),
    "ndcg_cut_5": ("ndcg", 5),
    "success_5": ("hit_rate", 5),
}
LABELS = {"pos": "positive", "neg": "negative", "neutral": "neutral", "unknown": "unknown"}


class Case:
    """One folder of dirty input in the common warehouse: its ids carry its name, its files too."""

    def __init__(self, warehouse: Warehouse, folder: str) -> None:
        self.warehouse = warehouse
        self.folder = folder
        self.outcome: dict[str, Any] = json.loads((DIRTY / folder / "expected.json").read_text())["outcome"]

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.warehouse.query(sql, *parameters)

    def id(self, name: str) -> str:
        return f"{self.folder}:{name}"

    def name(self, identifier: str) -> str:
        return identifier.removeprefix(f"{self.folder}:")

    def sessions(self) -> list[str]:
        rows = self.query(
            "select session_id from stg_retrieval_traces where starts_with(session_id, ?) order by all", self.id("")
        )
        return [self.name(session) for (session,) in rows]

    def ids_in_order(self, session: str) -> list[str | None]:
        return self.column(session, "list_transform(retrieved, lambda chunk: chunk.chunk_id)")

    def column(self, session: str, expression: str, table: str = "stg_retrieval_traces") -> Any:
        ((value,),) = self.query(f"select {expression} from {table} where session_id = ?", self.id(session))
        return value

    def scores(self, session: str, measure: str, label_class: str = "explicit") -> Any:
        """The measure of each trace of the session; golden for queries, explicit for feedback."""
        column, k = MEASURES[measure]
        rows = self.query(
            f"""
            select scores.{column} from fct_query_scores as scores
            inner join fct_retrievals using (trace_id, traced_on)
            where session_id = ? and stage = 'final' and label_class = ? and k = ?
            """,
            self.id(session), label_class, k,
        )  # fmt: skip
        ((value,),) = rows
        return value

    def assert_metrics(self, session: str, expected: Mapping[str, float], label_class: str = "explicit") -> None:
        found = {measure: self.scores(session, measure, label_class) for measure in expected}
        assert found == pytest.approx(dict(expected), abs=5e-6)

    def accounting(self, contract: str) -> dict[str, int]:
        columns = ("n_lines", "n_staged", "n_duplicates", "n_superseded", "n_quarantined")
        (row,) = self.query(
            f"select {', '.join(columns)} from stg_landing_accounting where contract = ? and path like ?",
            contract, f"{contract}/{self.folder}.%",
        )  # fmt: skip
        return dict(zip(columns, row, strict=True))

    def quarantined_lines(self) -> list[int]:
        rows = self.query(
            "select line_number from stg_quarantine where path_to_read like ? order by line_number",
            f"%/retrieval_traces/{self.folder}.%",
        )
        return [number for (number,) in rows]

    def attachments(self) -> list[tuple[str | None, str, str]]:
        """(trace it went to, what became of it, trace it named or the session's name) of each feedback row."""
        return self.query(
            """
            select routed.trace_id, routed.attachment, coalesce(feedback.trace_id, feedback.session_id)
            from int_feedback_traces as routed inner join stg_feedback as feedback using (feedback_id)
            where starts_with(coalesce(feedback.trace_id, feedback.session_id), ?)
            order by all
            """,
            self.id(""),
        )

    def labels(self, trace: str) -> list[tuple[str, int, int]]:
        """(chunk, grade, raters) of each label of the trace or of the session's only trace."""
        return self.query(
            """
            select evidence_id, grade, n_raters from int_relevance_labels
            inner join fct_retrievals using (trace_id, traced_on)
            where ? in (trace_id, session_id) order by all
            """,
            self.id(trace),
        )

    def mart(self, columns: str, metric: str, k: int, traffic: str, label_class: str) -> tuple[Any, ...]:
        (row,) = self.query(
            f"""
            select {columns} from mart_retrieval_quality
            where window_name = 'week' and segment_dimension = 'index_version' and segment_value = ?
                and stage = 'final' and metric = ? and k = ? and traffic = ? and label_class = ? and n_traces > 0
            """,
            self.id("v2"), metric, k, traffic, label_class,
        )  # fmt: skip
        return row


def land_case(warehouse: Warehouse, folder: str) -> None:
    """Land the bytes of a case; only the ids get the folder's name before them, so that cases do not meet."""
    for file in sorted((DIRTY / folder).iterdir()):
        stem, suffix = file.name.split(".", maxsplit=1)
        if stem not in {"traces", "feedback", "labels"}:
            continue
        content = gzip.decompress(file.read_bytes()) if suffix == "jsonl.gz" else file.read_bytes()
        content = prefixed(content, folder)
        if stem == "labels":
            land_labels(warehouse, folder, content)
        else:
            contract = {"traces": "retrieval_traces", "feedback": "feedback"}[stem]
            packed = gzip.compress(content, compresslevel=1) if suffix == "jsonl.gz" else content
            warehouse.land(contract, packed, f"{folder}.{suffix}")


def prefixed(content: bytes, folder: str) -> bytes:
    return PREFIXED.sub(rb"\g<1>" + folder.encode() + b":", content)


def land_labels(warehouse: Warehouse, folder: str, content: bytes) -> None:
    """A labels file is a golden set: its judgments, its queries, and one scheduled run over them."""
    labels = [json.loads(line) for line in content.splitlines() if line.strip()]
    warehouse.land(
        "qrels",
        [
            {"query_id": label["query_id"], "chunk_id": label["chunk_id"], "grade": label["relevance"]}
            for label in labels
        ],
        f"{folder}.jsonl",
    )
    queries = sorted({label["query_id"] for label in labels})
    warehouse.land(
        "queries",
        [{"query_id": query, "query": query, "query_set": f"{folder}:golden"} for query in queries],
        f"{folder}.jsonl",
    )
    warehouse.land(
        "eval_runs",
        [
            {
                "eval_run_id": f"{folder}:run", "started_at": 1796000000, "query_set": f"{folder}:golden",
                "kind": "scheduled", "index_version": f"{folder}:v2",
            }
        ],
        f"{folder}.jsonl",
    )  # fmt: skip
    online = prefixed((DIRTY / folder / "traces.jsonl").read_bytes(), folder)
    warehouse.land(
        "retrieval_traces",
        [
            row | {"eval_run_id": f"{folder}:run", "session_id": f"{row['session_id']}:run"}
            for row in map(json.loads, online.splitlines())
        ],
        f"{folder}:run.jsonl",
    )


@pytest.fixture(scope="session")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("dirty"))
    for folder in FOLDERS:
        land_case(warehouse, folder)
    warehouse.build(VARS)
    return warehouse


def check_01(case: Case) -> None:
    for session, hits in case.outcome["hits_at_5"].items():
        rows = case.query(
            "select n_hits from fct_query_scores inner join fct_retrievals using (trace_id) "
            "where session_id = ? and stage = 'final' and k = 5",
            case.id(session),
        )
        assert rows == [(hits,)]
        relevant = case.query(
            "select chunk_id from int_judged_chunks inner join fct_retrievals using (trace_id) "
            "where session_id = ? and is_relevant order by rank",
            case.id(session),
        )
        assert [chunk for (chunk,) in relevant] == case.outcome["relevant"][session]
    labelled = {chunk for chunk, _, _ in case.labels("s2")}
    assert labelled == set(case.outcome["not_equal"])


def check_04(case: Case) -> None:
    assert case.ids_in_order("s1") == case.outcome["order"]
    assert case.column("s1", "list_transform(retrieved, lambda chunk: chunk.score)") == case.outcome["scores"]
    assert case.column("s1", "n_non_finite_scores", "fct_retrievals") == case.outcome["flagged"]


def check_05(case: Case) -> None:
    case.assert_metrics("s1", case.outcome["metrics"])
    assert case.column("s1", "n_non_finite_scores", "fct_retrievals") == 0


def check_06(case: Case) -> None:
    assert case.ids_in_order("s1") == case.outcome["order"]
    assert case.column("s1", "n_duplicates", "fct_retrievals") == case.outcome["duplicates"]
    case.assert_metrics("s1", case.outcome["metrics"])


def check_07(case: Case) -> None:
    for session, expected in case.outcome["normalised_rank"].items():
        ranks = json.loads(expected.rpartition("-> ")[2]) if isinstance(expected, str) else expected
        assert case.column(session, "list_transform(retrieved, lambda chunk: chunk.rank)") == ranks
        assert case.ids_in_order(session) == ["a", "b", "c"]


def check_09(case: Case) -> None:
    assert case.ids_in_order("s1") == case.ids_in_order("s2") == case.outcome["order"]
    assert case.outcome["score_direction"] in case.column("s1", "score_type", "fct_retrievals")
    landed = [json.loads(line) for line in (DIRTY / case.folder / "traces.jsonl").read_text().splitlines()]
    for trace in landed:
        raw = [chunk["score"] for chunk in trace["retrieved"]]
        assert case.column(trace["session_id"], "list_transform(retrieved, lambda chunk: chunk.score)") == raw
    case.assert_metrics("s1", case.outcome["metrics"])


def check_11(case: Case) -> None:
    for session, metrics in case.outcome["metrics"].items():
        case.assert_metrics(session, metrics)
    traces = case.query(
        "select session_id, is_fault, is_no_results from fct_retrievals where starts_with(session_id, ?)", case.id("")
    )
    faults = {case.name(session) for session, is_fault, _ in traces if is_fault}
    assert faults == set(case.outcome["instrumentation_faults"])
    empty = [session for session, _, is_no_results in traces if is_no_results]
    assert f"{len(empty)} of {len(traces) - len(faults)} well-formed" == case.outcome["no_results_rate"]
    scored = case.query(
        "select distinct session_id from fct_query_scores inner join fct_retrievals using (trace_id) "
        "where starts_with(session_id, ?)",
        case.id(""),
    )
    assert {case.name(session) for (session,) in scored} == set(case.outcome["metrics"])
    columns = "n_traces, n_scored, n_no_results, n_fault"
    assert case.mart(columns, "recall", 5, "production", "explicit") == (len(traces), 1, len(empty), len(faults))


def check_12(case: Case) -> None:
    assert case.ids_in_order("s1") == case.outcome["order"]
    blank = case.outcome["order"].count(None)
    assert case.column("s1", "n_blank_chunk_ids", "fct_retrievals") == blank
    case.assert_metrics("s1", case.outcome["metrics"])


def check_13(case: Case) -> None:
    case.assert_metrics("s1", case.outcome["metrics"])


def check_14(case: Case) -> None:
    joined = [case.name(named) for _, outcome, named in case.attachments() if outcome == "attached"]
    orphans = [case.name(named) for _, outcome, named in case.attachments() if outcome == "orphan"]
    assert (joined, orphans) == (case.outcome["joined"], case.outcome["orphans"])
    assert case.sessions() == case.outcome["joined"]


def check_15(case: Case) -> None:
    days = case.query(
        "select distinct traced_on::varchar from fct_query_scores "
        "inner join fct_retrievals using (trace_id, traced_on) where starts_with(session_id, ?)",
        case.id(""),
    )
    assert days == [(case.outcome["metric_day"],)]
    fates = {case.name(named): outcome for _, outcome, named in case.attachments()}
    for session, expected in case.outcome["with_lookback_30d"].items():
        if isinstance(expected, str):
            assert (fates[session], case.labels(session)) == (expected, [])
        else:
            assert (fates[session], len(case.labels(session))) == ("attached", expected)


def check_16(case: Case) -> None:
    for session, vote in case.outcome["votes"].items():
        assert {(grade, raters) for _, grade, raters in case.labels(session)} == {(vote["rating"], vote["n"])}
    # keys that no contract knows are ignored but counted
    unknown = case.query(
        "select unknown_keys from stg_landing_accounting where path like ?", f"feedback/{case.folder}.%"
    )
    assert unknown == [({"comment": 3, "tags": 3, "type": 3, "user": 3},)]


def check_18(case: Case) -> None:
    routed = {case.name(named): case.name(trace) for trace, _, named in case.attachments() if trace}
    # the first feedback names its trace; the second only its session
    assert [routed[trace] for trace in case.outcome["labelled_traces"]] == case.outcome["labelled_traces"]
    assert routed["s1"] == case.outcome["by_time_rule"]["fb_without_trace_id"]
    # every trace of the session showed chunk a: only the one that was named has the label
    assert ("a", 1, 1) in case.labels(*case.outcome["labelled_traces"])
    for trace in case.outcome["unlabelled_traces"]:
        assert "a" not in {chunk for chunk, _, _ in case.labels(trace)}


def check_19(case: Case) -> None:
    attached = [row for row in case.attachments() if row[1] == "attached"]
    assert len(attached) == case.outcome["joined"]
    assert len(case.labels("t2")) == case.outcome["null_null_joined"]
    # feedback that names neither session nor trace can never find one: turned away, not lost
    assert case.accounting("feedback")["n_quarantined"] == 1


def check_20(case: Case) -> None:
    accounting = case.accounting("retrieval_traces")
    assert accounting["n_staged"] == case.outcome["traces"] == len(case.sessions())
    assert accounting["n_duplicates"] + accounting["n_superseded"] == case.outcome["duplicates"]
    assert case.ids_in_order("s1") == case.outcome["order"]


def check_22_and_23(case: Case) -> None:
    assert case.sessions() == case.outcome["good"]
    assert case.quarantined_lines() == case.outcome["quarantined_lines"]


def check_26(case: Case) -> None:
    assert [session for session in case.sessions() if session != "s2"] == case.outcome["good"]
    loaded = "s2" in case.sessions()
    assert case.outcome["either"] == "s2 loaded or quarantined"
    assert loaded != (case.quarantined_lines() == [2])
    if loaded:
        assert case.column("s2", "length(query)") >= 20_000_000


def check_28(case: Case) -> None:
    mean, n_missing = case.mart("estimate, n_missing", "recall", 5, "scheduled_eval", "golden")
    assert (mean, n_missing) == (case.outcome["offline_mean_recall_5"], 1)
    mean, n_scored, n_traces = case.mart("estimate, n_scored, n_traces", "recall", 5, "production", "golden")
    assert mean == case.outcome["online_mean_recall_5"]
    assert n_scored / n_traces == case.outcome["online_coverage"]


def check_29(case: Case) -> None:
    for column, expected in (("recall", "recall_5"), ("precision", "precision_5")):
        rows = case.query(
            f"select query_id, {column} from fct_query_scores inner join fct_retrievals using (trace_id, traced_on) "
            "where traffic = 'production' and starts_with(query_id, ?) and k = 5",
            case.id(""),
        )
        assert {case.name(query): score for query, score in rows} == case.outcome[expected]
    columns = "estimate, estimate_low, n_no_relevant"
    estimate, estimate_low, n_no_relevant = case.mart(columns, "recall", 5, "production", "golden")
    assert estimate == case.outcome["mean_recall_excluding_undefined"]
    # both are published: what is not scored counted as 0 is the formula of the guide
    assert estimate_low == case.outcome["mean_recall_seed_formula"]
    assert n_no_relevant == list(case.outcome["recall_5"].values()).count(None)


def check_30(case: Case) -> None:
    case.assert_metrics("s1", case.outcome["metrics"], "golden")


def check_32(case: Case) -> None:
    landed = [json.loads(line) for line in (DIRTY / case.folder / "feedback.jsonl").read_text().splitlines()]
    expected = [LABELS[label.partition("(")[0]] for label in case.outcome["label"]]
    found = [
        case.query(
            "select rating_label from int_feedback where session_id = ? "
            "and rating is not distinct from ? and rating_scale is not distinct from ?",
            case.id("s1"), as_text(row["rating"]), row.get("rating_scale"),
        )
        for row in landed
    ]  # fmt: skip
    assert found == [[(label,)] for label in expected]


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


CHECKS: dict[str, Callable[[Case], None]] = {
    "01_int_and_string_ids": check_01,
    "04_nan_infinity_scores": check_04,
    "05_null_scores": check_05,
    "06_duplicate_chunk_in_list": check_06,
    "07_rank_base": check_07,
    "09_distance_scores": check_09,
    "11_empty_retrieved": check_11,
    "12_blank_chunk_id": check_12,
    "13_fewer_than_k": check_13,
    "14_feedback_before_trace": check_14,
    "15_late_feedback": check_15,
    "16_repeated_feedback_same_user": check_16,
    "18_several_queries_one_session": check_18,
    "19_null_session": check_19,
    "20_duplicate_delivery": check_20,
    "22_bad_lines": check_22_and_23,
    "23_invalid_unicode": check_22_and_23,
    "26_huge_query": check_26,
    "28_labels_and_traces_do_not_match": check_28,
    "29_no_relevant_in_middle": check_29,
    "30_ideal_from_all_labels": check_30,
    "32_rating_types": check_32,
}


@needs_shared
@pytest.mark.parametrize("folder", CHECKS)
def test_dirty_case(dirty: Warehouse, folder: str) -> None:
    CHECKS[folder](Case(dirty, folder))


@needs_shared
def test_every_line_of_every_case_is_accounted_for(dirty: Warehouse) -> None:
    rows = dirty.query(
        "select path from stg_landing_accounting "
        "where n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined"
    )
    assert rows == []


@needs_shared
def test_all_folders_are_covered() -> None:
    assert sorted(CHECKS) == FOLDERS
    assert len(FOLDERS) == 22
    index = (DIRTY / "INDEX.tsv").read_text().splitlines()[1:]
    assert sorted(line.partition("\t")[0] for line in index) == FOLDERS


# --- random files ----------------------------------------------------------------------------

SEED = 20261130
NOON = 1796040000  # 2026-11-30 12:00:00 UTC
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Line:
    """A line as landed and its fate: `blank`, `accepted`, or the reason of its quarantine."""

    raw: bytes
    fate: str
    key: str = ""
    said: str = ""
    delivered_at: float = 0.0


@dataclass(frozen=True)
class LandedFile:
    """`kept` holds what the content was before it was packed, one entry per physical line or row."""

    name: str
    content: bytes
    kept: Sequence[Line]


@dataclass
class Accounts:
    """What becomes of accepted lines, told by a loop instead of SQL."""

    winners: dict[str, tuple[Line, tuple[int, str]]] = field(default_factory=dict)
    counts: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)

    def deliver(self, night: int, files: Sequence[LandedFile]) -> None:
        arrivals: dict[str, list[tuple[Line, tuple[int, str]]]] = {}
        for file in sorted(files, key=lambda file: file.name):
            at = (night, file.name)
            fates = Counter("accepted" if line.fate == "accepted" else "n_quarantined" for line in non_blank(file))
            self.counts[at] = Counter(n_lines=fates.total(), n_quarantined=fates["n_quarantined"])
            for line in non_blank(file):
                if line.fate == "accepted":
                    arrivals.setdefault(line.key, []).append((line, at))
        for key, lines in arrivals.items():
            so_far = [self.winners[key]] if key in self.winners else []
            contenders = so_far + lines
            # max() keeps the first of equals: the one that was there before
            winner = max(contenders, key=lambda contender: contender[0].delivered_at)
            rest = list(contenders)
            rest.remove(winner)
            if key in self.winners:
                self.counts[self.winners[key][1]]["n_staged"] -= 1
            self.counts[winner[1]]["n_staged"] += 1
            self.winners[key] = winner
            for line, at in rest:
                self.counts[at]["n_duplicates" if line.said == winner[0].said else "n_superseded"] += 1


def non_blank(file: LandedFile) -> list[Line]:
    return [line for line in file.kept if line.fate != "blank"]


def trace(key: str, version: int = 0, **values: object) -> dict[str, object]:
    """A version of a trace is delivered `version` minutes after it happened, and says so."""
    row: dict[str, object] = {"trace_id": key, "session_id": f"session of {key}", "ts": NOON, "query": f"v{version} é"}
    if version:
        row["ingested_at"] = NOON + 60 * version
    return row | values


def accepted(key: str, version: int = 0, unknown: Mapping[str, object] | None = None) -> Line:
    row = trace(key, version) | oddity(key)
    raw = as_json(row | (unknown or {}))
    return Line(raw, "accepted", key, as_json(row).decode(), NOON + 60 * version)


def oddity(key: str) -> dict[str, object]:
    """What half of the traces say beside the point: it costs them a value, never the line."""
    return {} if is_plain(key) else ODDITIES[zlib.crc32(key.encode()) % len(ODDITIES)]


def is_plain(key: str) -> bool:
    return ".parquet" in key or zlib.crc32(key.encode()) & 1024 == 0


ODDITIES: list[dict[str, object]] = [
    {"retrieved": [{"chunk_id": "a", "score": float("nan"), "rank": 1}, {"chunk_id": "b", "score": float("inf")}]},
    {"retrieved": '[{"chunk_id": "nested array as text"}]'},
    {"retrieved": [{"chunk_id": "a", "rank": "first", "score": "high"}, "b", None, 7]},
    {"retrieved": [], "candidates": {"chunk_id": "no list"}},
    {"top_k": "ten", "retrieval_latency_ms": "fast", "filter_empty": "perhaps", "filters": [1, {"deep": [[]]}]},
    {"user_id": {"nested": "id"}, "environment": 5, "error": ["a", "list"]},
]
UNKNOWN: list[dict[str, object]] = [{}, {}, {"colour": "red"}, {"Query": "of another case"}, {"deep": {"er": [1, [2]]}}]


def as_json(row: Mapping[str, object]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


def rejected(rng: random.Random, key: str) -> Line:
    good = as_json(trace(key))
    unreadable = [
        (good[: rng.randrange(2, len(good) - 2)], "invalid_json"),
        (good + b"TRAILER", "invalid_json"),
        (good + b" " + good, "invalid_json"),
        (good[1:], "invalid_json"),
        (b"{'trace_id': 'quoted'}", "invalid_json"),
        (b'{"trace_id": "x", "ts": 1796040000, "query": "\\ud83d alone"}', "invalid_json"),
        (b'{"trace_id": "x", "ts": 1796040000, "query": "raw \t tab"}', "invalid_json"),
        (BOM + good, "invalid_json"),
        ('{"trace_id": "x", "query": "café"}'.encode("latin-1"), "invalid_utf8"),
        (b"\xff\xfe\x00\x00", "invalid_utf8"),
        (rng.choice([b"[]", b"[1, 2]", b'"text"', b"42", b"null", b"true", b"[" + good + b"]"]), "not_an_object"),
        (rng.choice([b"{}", b'{"someone": "else"}', b'{"trace_id": null}', b'{"TS": 1796040000}']), "no_known_key"),
    ]
    refused = [(as_json(trace(key, **values)), reason) for values, reason in REFUSED]
    raw, fate = rng.choice(rng.choice([unreadable, refused]))
    try:  # a cut may leave half a character
        raw.decode()
    except UnicodeDecodeError:
        fate = "invalid_utf8"
    return Line(raw, fate)


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"ts": None}, "missing_ts"),
    ({"ts": "yesterday"}, "bad_ts"),
    ({"ts": "2026-13-01T00:00:00Z"}, "bad_ts"),
    ({"ingested_at": "later"}, "bad_ingested_at"),
    ({"ts": NOON + 3601, "ingested_at": NOON}, "future_ts"),
    ({"sample_rate": 0}, "bad_sample_rate"),
    ({"sample_rate": "often"}, "bad_sample_rate"),
]


def random_lines(rng: random.Random, name: str, keys: list[str], n_lines: int) -> Iterator[Line]:
    for number in range(n_lines):
        kind = rng.choices(["new", "again", "blank", "bad"], [5, 3, 1, 2])[0]
        if kind == "blank":
            yield Line(rng.choice([b"", b"  ", b"\t", b" \t "]), "blank")
        elif kind == "bad":
            yield rejected(rng, f"{name} {number}")
        elif kind == "again" and keys:
            yield accepted(rng.choice(keys), rng.randrange(3), rng.choice(UNKNOWN))
        else:
            keys.append(f"{name} {number}")
            yield accepted(keys[-1], rng.randrange(3), rng.choice(UNKNOWN))


def text_file(rng: random.Random, name: str, lines: Sequence[Line]) -> LandedFile:
    newline = rng.choice([b"\n", b"\r\n"])
    content = rng.choice([b"", BOM]) + newline.join(line.raw for line in lines) + rng.choice([b"", newline])
    if name.endswith(".gz"):
        # members joined, as log shippers append them
        half = len(content) // 2
        content = gzip.compress(content[:half]) + gzip.compress(content[half:])
    elif name.endswith(".zst"):
        content = pa.compress(content, "zstd", asbytes=True)
    return LandedFile(name, content, lines)


def parquet_file(rng: random.Random, name: str, keys: list[str], n_rows: int) -> LandedFile:
    rows: list[tuple[dict[str, object], Line]] = []
    for number in range(n_rows):
        kind = rng.choices(["new", "again", "refused", "empty"], [5, 3, 2, 1])[0]
        if kind == "empty":
            rows.append(({}, Line(b"{}", "no_known_key")))
        elif kind == "refused":
            values, reason = rng.choice(REFUSED)
            row = trace(f"{name} {number}", **values)
            rows.append((row, Line(as_json(row), reason)))
        else:
            plain = [key for key in rng.sample(keys, min(len(keys), 20)) if is_plain(key)]
            if kind == "new" or not plain:
                keys.append(f"{name} {number}")
                plain = keys[-1:]
            key = plain[0]
            line = accepted(key, rng.randrange(3))
            rows.append((json.loads(line.raw), line))
    names = ["trace_id", "session_id", "ts", "query", "ingested_at", "sample_rate"]
    as_text = [{name: None if row.get(name) is None else str(row[name]) for name in names} for row, _ in rows]
    buffer = io.BytesIO()
    schema = pa.schema([(name, pa.string()) for name in names])
    pq.write_table(pa.Table.from_pylist(as_text, schema=schema), buffer)
    kept = [
        line if line.fate == "accepted" else Line(as_json(row), line.fate)
        for (_, line), row in zip(rows, as_text, strict=True)
    ]
    return LandedFile(name, buffer.getvalue(), kept)


def random_nights(seed: int, fewest: int, most: int) -> list[list[LandedFile]]:
    """Two nights of eight files with `fewest` to `most` lines, and some that are special."""
    rng = random.Random(seed)
    keys: list[str] = []
    names = ["a.jsonl", "dt=2026-11-30/b.jsonl", "c.jsonl.gz", "d.jsonl.zst", "e.parquet", "f.parquet", "g.jsonl"]
    nights = []
    for night in (1, 2):
        files = []
        for name in names:
            n_lines = rng.randrange(fewest, most)
            path = name.replace(".", f"-{night}.", 1)
            if path.endswith(".parquet"):
                files.append(parquet_file(rng, path, keys, n_lines))
            else:
                files.append(text_file(rng, path, list(random_lines(rng, path, keys, n_lines))))
        nights.append(files)
    # a file that is appended to is read again: what it repeats is duplicate
    grown = LandedFile("grown.jsonl", b"", [*random_lines(rng, "grown", keys, 20)])
    more = [*grown.kept, *random_lines(rng, "grown more", keys, 20)]
    for files, lines in zip(nights, (grown.kept, more), strict=True):
        files.append(LandedFile("grown.jsonl", b"".join(line.raw + b"\n" for line in lines), lines))
    blank = [Line(b"", "blank"), Line(b"  ", "blank")]
    nights[0] += [LandedFile("blank.jsonl", b"\n  ", blank), LandedFile("empty.jsonl", b"", [])]
    nights[0] += [LandedFile("empty.jsonl.gz", gzip.compress(b""), [])]
    lines = [accepted("huge", unknown={"pasted": "x" * 20_000_000}), rejected(rng, "after huge")]
    nights[0] += [LandedFile("huge.jsonl", b"\n".join(line.raw for line in lines), lines)]
    return nights


# --- every reason, every time, every id ------------------------------------------------------

TRACE: dict[str, object] = {"trace_id": "refused", "ts": NOON}
FEEDBACK: dict[str, object] = {"session_id": "s", "ts": NOON, "rating": 1}
QREL: dict[str, object] = {"query_id": "q", "chunk_id": "a", "grade": 1}
QUERY: dict[str, object] = {"query_id": "q", "query": "why?"}
RUN: dict[str, object] = {"eval_run_id": "r", "started_at": NOON, "query_set": "golden"}
ANSWER: dict[str, object] = {"answer_id": "a", "trace_id": "t", "ts": NOON}
DOCUMENT: dict[str, object] = {"doc_id": "d", "content": "text"}
CHUNK: dict[str, object] = {"passage_id": "p", "doc_id": "d", "content": "text"}
SNAPSHOT: dict[str, object] = {"snapshot_id": "s", "created_at": NOON}
CALL: dict[str, object] = {"call_id": "c", "ts": NOON, "purpose": "judge", "model": "m"}
COUNT: dict[str, object] = {"day": "2026-11-30", "n_queries": 10}
CHECK: dict[str, object] = {
    "check_id": "r:e", "check_run_id": "r", "checked_at": NOON, "contract": "feedback", "expectation_id": "e",
    "severity": "warn", "outcome": "passed", "message": "fine",
}  # fmt: skip
EVENT: dict[str, object] = {
    "event_id": "e", "alert_id": "a", "event": "opened", "occurred_at": NOON, "slo_id": "daily",
    "segment_value": "total", "night_on": "2026-11-29",
}  # fmt: skip
DRILL: dict[str, object] = {
    "drill_result_id": "d/shuffled/final ndcg@10", "drill_id": "d", "drilled_at": NOON, "variant": "shuffled",
    "metric": "ndcg", "k": 10, "stage": "final", "verdict": "caught",
}  # fmt: skip
REASONS: list[tuple[str, str, dict[str, object]]] = [
    *(("retrieval_traces", reason, TRACE | values) for values, reason in REFUSED),
    ("retrieval_traces", "bad_sample_rate", TRACE | {"sample_rate": 1.5}),
    ("feedback", "missing_session_and_trace", FEEDBACK | {"session_id": None}),
    ("feedback", "missing_ts", FEEDBACK | {"ts": None}),
    ("feedback", "bad_ts", FEEDBACK | {"ts": "soon"}),
    ("feedback", "bad_ingested_at", FEEDBACK | {"ingested_at": "soon"}),
    ("feedback", "future_ts", FEEDBACK | {"ts": NOON + 3601, "ingested_at": NOON}),
    ("feedback", "bad_grade", FEEDBACK | {"grade": 1.5}),
    ("feedback", "bad_grade", FEEDBACK | {"grade": "good"}),
    ("feedback", "bad_grade", FEEDBACK | {"grade": 11}),
    ("feedback", "blank_chunk_id", FEEDBACK | {"chunk_ids": ["a", " "]}),
    ("feedback", "blank_chunk_id", FEEDBACK | {"chunk_ids": [None]}),
    ("feedback", "unknown_label_class", FEEDBACK | {"label_class": "gold"}),
    ("feedback", "unknown_label_class", FEEDBACK | {"label_class": "pooled"}),
    ("feedback", "bad_weight", FEEDBACK | {"weight": 1e300}),
    ("feedback", "bad_inclusion_probability", FEEDBACK | {"inclusion_probability": 0}),
    ("qrels", "missing_query_id", QREL | {"query_id": None}),
    ("qrels", "blank_chunk_id", QREL | {"chunk_id": " "}),
    ("qrels", "blank_chunk_id", QREL | {"chunk_id": None}),
    ("qrels", "missing_grade", QREL | {"grade": None}),
    ("qrels", "bad_grade", QREL | {"grade": "2.5"}),
    ("qrels", "unknown_label_class", QREL | {"label_class": "gold"}),
    ("qrels", "bad_labelled_at", QREL | {"labelled_at": "once"}),
    ("qrels", "bad_ingested_at", QREL | {"ingested_at": "once"}),
    ("queries", "missing_query_id", QUERY | {"query_id": None}),
    ("queries", "missing_query", QUERY | {"query": None}),
    ("queries", "bad_added_at", QUERY | {"added_at": "once"}),
    ("queries", "bad_ingested_at", QUERY | {"ingested_at": "once"}),
    ("eval_runs", "missing_eval_run_id", RUN | {"eval_run_id": None}),
    ("eval_runs", "missing_started_at", RUN | {"started_at": None}),
    ("eval_runs", "bad_started_at", RUN | {"started_at": "once"}),
    ("eval_runs", "missing_query_set", RUN | {"query_set": None}),
    ("eval_runs", "unknown_kind", RUN | {"kind": "weekly"}),
    ("eval_runs", "bad_ingested_at", RUN | {"ingested_at": "once"}),
    ("answers", "missing_answer_id", ANSWER | {"answer_id": ""}),
    ("answers", "missing_session_and_trace", ANSWER | {"trace_id": None}),
    ("answers", "missing_ts", ANSWER | {"ts": None}),
    ("answers", "bad_ts", ANSWER | {"ts": "soon"}),
    ("answers", "bad_ingested_at", ANSWER | {"ingested_at": "soon"}),
    ("answers", "future_ts", ANSWER | {"ts": NOON + 3601, "ingested_at": NOON}),
    ("answers", "bad_citations", ANSWER | {"citations": ["a", "b"]}),
    ("answers", "negative_count", ANSWER | {"attempts": -1}),
    ("answers", "bad_cost_usd", ANSWER | {"cost_usd": -0.01}),
    ("corpus_documents", "missing_doc_id", DOCUMENT | {"doc_id": " "}),
    ("corpus_documents", "missing_content", DOCUMENT | {"content": None}),
    ("corpus_documents", "bad_collected_at", DOCUMENT | {"collected_at": "once"}),
    ("corpus_documents", "bad_ingested_at", DOCUMENT | {"ingested_at": "once"}),
    ("corpus_chunks", "missing_passage_id", CHUNK | {"passage_id": None}),
    ("corpus_chunks", "missing_doc_id", CHUNK | {"doc_id": None}),
    ("corpus_chunks", "missing_content", CHUNK | {"content": None}),
    ("corpus_chunks", "negative_count", CHUNK | {"chunk_index": -1}),
    ("corpus_chunks", "bad_offsets", CHUNK | {"start_char": 5, "end_char": 4}),
    ("corpus_chunks", "bad_ingested_at", CHUNK | {"ingested_at": "once"}),
    ("corpus_snapshots", "missing_snapshot_id", SNAPSHOT | {"snapshot_id": None}),
    ("corpus_snapshots", "missing_created_at", SNAPSHOT | {"created_at": None}),
    ("corpus_snapshots", "bad_created_at", SNAPSHOT | {"created_at": "once"}),
    ("corpus_snapshots", "negative_count", SNAPSHOT | {"n_chunks": -2}),
    ("corpus_snapshots", "bad_ingested_at", SNAPSHOT | {"ingested_at": "once"}),
    ("llm_calls", "missing_call_id", CALL | {"call_id": None}),
    ("llm_calls", "missing_ts", CALL | {"ts": None}),
    ("llm_calls", "bad_ts", CALL | {"ts": "soon"}),
    ("llm_calls", "missing_purpose", CALL | {"purpose": " "}),
    ("llm_calls", "missing_model", CALL | {"model": None}),
    ("llm_calls", "bad_ingested_at", CALL | {"ingested_at": "soon"}),
    ("llm_calls", "future_ts", CALL | {"ts": NOON + 3601, "ingested_at": NOON}),
    ("llm_calls", "negative_count", CALL | {"output_tokens": -1}),
    ("llm_calls", "bad_cost_usd", CALL | {"cost_usd": float("nan")}),
    ("traffic_counts", "missing_day", COUNT | {"day": None}),
    ("traffic_counts", "bad_day", COUNT | {"day": "monday"}),
    ("traffic_counts", "missing_n_queries", COUNT | {"n_queries": None}),
    ("traffic_counts", "bad_n_queries", COUNT | {"n_queries": -1}),
    ("traffic_counts", "bad_n_queries", COUNT | {"n_queries": "many"}),
    ("traffic_counts", "bad_n_queries", COUNT | {"n_queries": 1.5}),
    ("traffic_counts", "bad_ingested_at", COUNT | {"ingested_at": "once"}),
    ("landing_checks", "missing_check_id", CHECK | {"check_id": None}),
    ("landing_checks", "bad_checked_at", CHECK | {"checked_at": None}),
    ("landing_checks", "missing_expectation", CHECK | {"expectation_id": None}),
    ("landing_checks", "missing_outcome", CHECK | {"outcome": None}),
    ("landing_checks", "bad_ingested_at", CHECK | {"ingested_at": "once"}),
    ("alert_events", "missing_event_id", EVENT | {"event_id": " "}),
    ("alert_events", "missing_alert_id", EVENT | {"alert_id": None}),
    ("alert_events", "unknown_event", EVENT | {"event": "snoozed"}),
    ("alert_events", "bad_occurred_at", EVENT | {"occurred_at": "soon"}),
    ("alert_events", "missing_slo_id", EVENT | {"slo_id": None}),
    ("alert_events", "bad_night_on", EVENT | {"night_on": "tonight"}),
    ("alert_events", "bad_window_starts_on", EVENT | {"window_starts_on": "monday"}),
    ("alert_events", "bad_ingested_at", EVENT | {"ingested_at": "once"}),
    ("drill_reports", "missing_drill_result_id", DRILL | {"drill_result_id": " "}),
    ("drill_reports", "bad_drilled_at", DRILL | {"drilled_at": "once"}),
    ("drill_reports", "missing_drill_verdict", DRILL | {"variant": None}),
    ("drill_reports", "missing_drill_verdict", DRILL | {"verdict": None}),
    ("drill_reports", "missing_drill_metric", DRILL | {"k": None}),
    ("drill_reports", "bad_ingested_at", DRILL | {"ingested_at": "once"}),
]

# 1796000000 is 2026-11-30 00:53:20 UTC
TIMES: list[tuple[object, str]] = [
    (1796000000, "2026-11-30 00:53:20"),
    ("1796000000", "2026-11-30 00:53:20"),
    (1796000000.0, "2026-11-30 00:53:20"),
    (1796000000.25, "2026-11-30 00:53:20.25"),
    ("1796000000.25", "2026-11-30 00:53:20.25"),
    (1796000000.75, "2026-11-30 00:53:20.75"),
    ("1796000000.123456", "2026-11-30 00:53:20.123456"),
    ("1.79600000025e9", "2026-11-30 00:53:20.25"),
    (1796083199.75, "2026-11-30 23:59:59.75"),  # not the next day
    (1796000000250, "2026-11-30 00:53:20.25"),
    ("1796000000250", "2026-11-30 00:53:20.25"),
    (1796000000250.5, "2026-11-30 00:53:20.2505"),
    (1796000000250000, "2026-11-30 00:53:20.25"),
    ("1796000000250000", "2026-11-30 00:53:20.25"),
    (1796000000250000.0, "2026-11-30 00:53:20.25"),
    (1796000000123456789, "2026-11-30 00:53:20.123456"),
    ("1796000000123456789", "2026-11-30 00:53:20.123456"),
    ("2026-11-30T00:53:20Z", "2026-11-30 00:53:20"),
    ("2026-11-30T00:53:20.25Z", "2026-11-30 00:53:20.25"),
    ("2026-11-30 00:53:20.25+00:00", "2026-11-30 00:53:20.25"),
    ("2026-11-30T11:53:20.25+11:00", "2026-11-30 00:53:20.25"),
    ("2026-11-29T19:53:20.25-05:00", "2026-11-30 00:53:20.25"),
    ("2026-11-30T06:23:20.25+0530", "2026-11-30 00:53:20.25"),
    ("2026-11-30T01:53:20+01", "2026-11-30 00:53:20"),
    ("2026-11-30T00:53:20.123456789Z", "2026-11-30 00:53:20.123456"),
    ("2026-11-30T00:53:20.25", "2026-11-30 00:53:20.25"),
    ("2026-11-30 00:53", "2026-11-30 00:53:00"),
    ("2026-11-30", "2026-11-30 00:00:00"),
    ("2026-11-30T00:00:00Z", "2026-11-30 00:00:00"),
    (0, "1970-01-01 00:00:00"),
]

IDS: list[tuple[object, str]] = [
    (42, "42"),
    ("42", "42"),
    ("007", "007"),
    (123456789012345678901234567890, "123456789012345678901234567890"),
    (True, "true"),
    (1.5, "1.5"),
    ("é ", "é "),
    (" padded", " padded"),
    ("a\u2028b", "a\u2028b"),
    ('say "x"', 'say "x"'),
]


def land_reasons_times_and_ids(warehouse: Warehouse) -> None:
    for contract in {contract for contract, _, _ in REASONS}:
        rows = [row for landed_in, _, row in REASONS if landed_in == contract]
        warehouse.land(contract, rows, "reasons.jsonl")
    warehouse.land(
        "retrieval_traces",
        [{"trace_id": f"time {number}", "ts": landed} for number, (landed, _) in enumerate(TIMES)],
        "times.jsonl",
    )
    warehouse.land(
        "retrieval_traces",
        [
            {"trace_id": landed, "session_id": landed, "query": f"id {number}", "ts": NOON + number,
             "retrieved": [{"chunk_id": landed}]}
            for number, (landed, _) in enumerate(IDS)
        ],
        "ids.jsonl",
    )  # fmt: skip
    typed = pa.table(
        {
            "trace_id": pa.array([1, 2], pa.int32()),
            "ts": pa.array([1796000000_250000, None], pa.timestamp("us", tz="Australia/Sydney")),
            "retrieved": pa.array([[{"chunk_id": 7, "score": 0.5}], []]),
        }
    )
    path = warehouse.land("retrieval_traces", b"", "typed.parquet")
    pq.write_table(typed, path)


def land_what_is_not_landed(warehouse: Warehouse, outside: Path) -> None:
    """Hidden files and folders, and links: documented as not landed."""
    row = [{"trace_id": "not landed", "ts": NOON}]
    for name in (".hidden.jsonl", "_partial.jsonl", ".staging/x.jsonl", "dt=2026-11-30/_tmp/x.jsonl", "_x/y/z.jsonl"):
        warehouse.land("retrieval_traces", row, name)
    warehouse.land("_scratch", row)
    elsewhere = Warehouse(outside).land("retrieval_traces", row, "linked.jsonl")
    (warehouse.landing / "retrieval_traces" / "link.jsonl").symlink_to(elsewhere)
    (warehouse.landing / "retrieval_traces" / "linked").symlink_to(elsewhere.parent, target_is_directory=True)


@pytest.fixture(scope="session")
def nights() -> list[list[LandedFile]]:
    return random_nights(SEED, 20, 60)


@pytest.fixture(scope="session")
def landed(tmp_path_factory: pytest.TempPathFactory, nights: list[list[LandedFile]]) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("landing"))
    land_reasons_times_and_ids(warehouse)
    land_what_is_not_landed(warehouse, tmp_path_factory.mktemp("outside"))
    for files in nights:
        for file in files:
            warehouse.land("retrieval_traces", file.content, f"random/{file.name}")
        warehouse.build({"max_quarantined_share": 1.0})
    return warehouse


def registrations(warehouse: Warehouse) -> dict[tuple[int, str], tuple[int, dict[str, int]]]:
    """(night, file name) of the random files to their file_id and accounting."""
    columns = ("n_lines", "n_staged", "n_duplicates", "n_superseded", "n_quarantined")
    rows = warehouse.query(
        f"select file_id, load_id, path, {', '.join(columns)} from stg_landing_accounting "
        "where path like '%/random/%' order by file_id"
    )
    return {
        (load_id, path.removeprefix("retrieval_traces/random/")): (file_id, dict(zip(columns, numbers, strict=True)))
        for file_id, load_id, path, *numbers in rows
    }  # type: ignore[misc]


def test_the_accounting_of_every_file_is_exact(landed: Warehouse, nights: list[list[LandedFile]]) -> None:
    accounts = Accounts()
    for night, files in enumerate(nights, start=1):
        accounts.deliver(night, files)
    found = {at: {name: n for name, n in numbers.items() if n} for at, (_, numbers) in registrations(landed).items()}
    assert found == {at: dict(+counts) for at, counts in accounts.counts.items()}
    assert all(sum(counts.values()) == 2 * counts["n_lines"] for counts in accounts.counts.values())
    # the mix is one: every outcome occurs
    assert all(sum(accounts.counts.values(), Counter()).values())


def test_the_quarantine_is_exact(landed: Warehouse, nights: list[list[LandedFile]]) -> None:
    for at, (file_id, _) in registrations(landed).items():
        night, name = at
        (file,) = (file for file in nights[night - 1] if file.name == name)
        expected = [
            (number, line.fate, line.raw.decode(errors="replace"))
            for number, line in enumerate(file.kept, start=1)
            if line.fate not in {"accepted", "blank"}
        ]
        found = landed.query(
            "select line_number, reject_reason, raw_text from stg_quarantine where file_id = ? order by line_number",
            file_id,
        )
        if name.endswith(".parquet"):  # a row has no text of its own: its JSON is
            found = [(number, reason, json.loads(str(raw))) for number, reason, raw in found]
            parsed = [(number, reason, json.loads(raw)) for number, reason, raw in expected]
            assert (at, found) == (at, parsed)
        else:
            assert (at, found) == (at, expected)


def test_the_winner_is_the_latest_delivery(landed: Warehouse, nights: list[list[LandedFile]]) -> None:
    accounts = Accounts()
    for night, files in enumerate(nights, start=1):
        accounts.deliver(night, files)
    expected = {key: json.loads(line.raw)["query"] for key, (line, _) in accounts.winners.items()}
    found = landed.query(
        "select trace_id, query from stg_retrieval_traces where file_id in "
        "(select file_id from stg_landing_accounting where path like '%/random/%')"
    )
    assert dict(found) == expected


@pytest.mark.parametrize("contract", sorted({contract for contract, _, _ in REASONS}))
def test_every_reason_is_told(landed: Warehouse, contract: str) -> None:
    found = landed.query(
        "select line_number, reject_reason from stg_quarantine where path_to_read like ? order by line_number",
        f"%/{contract}/reasons.jsonl",
    )
    expected = [reason for landed_in, reason, _ in REASONS if landed_in == contract]
    assert found == list(enumerate(expected, start=1))
    declared = re.findall(r"then '(\w+)'", (PROJECT / "macros" / "landing" / f"contract_{contract}.sql").read_text())
    assert set(expected) == set(declared)


def test_every_contract_has_its_reasons() -> None:
    assert {contract for contract, _, _ in REASONS} == set(CONTRACTS)


@pytest.mark.slow
def test_a_hundred_thousand_damaged_lines(tmp_path: Path) -> None:
    nights = random_nights(SEED + 1, 40_000, 44_000)
    warehouse = Warehouse(tmp_path)
    for files in nights:
        for file in files:
            warehouse.land("retrieval_traces", file.content, f"random/{file.name}")
        warehouse.build({"max_quarantined_share": 1.0})
    test_the_accounting_of_every_file_is_exact(warehouse, nights)
    test_the_quarantine_is_exact(warehouse, nights)
    test_the_winner_is_the_latest_delivery(warehouse, nights)
    ((n_damaged,),) = warehouse.query("select count(*) from stg_quarantine")
    assert int(str(n_damaged)) >= 100_000


@pytest.mark.parametrize(("number", "form", "expected"), [(n, *row) for n, row in enumerate(TIMES)], ids=str)
def test_every_form_of_a_time(landed: Warehouse, number: int, form: object, expected: str) -> None:
    rows = landed.query(
        "select traced_at::varchar, traced_on::varchar from stg_retrieval_traces where trace_id = ?", f"time {number}"
    )
    assert rows == [(expected, expected[:10])], f"landed as {form!r}"


def test_every_json_type_of_an_id_is_its_text(landed: Warehouse) -> None:
    for number, (_, text) in enumerate(IDS):
        rows = landed.query(
            "select trace_id, session_id, retrieved[1].chunk_id from stg_retrieval_traces "
            "where query = ? or (trace_id = ? and query like 'id %')",
            f"id {number}", text,
        )  # fmt: skip
        assert rows == [(text, text, text)]
    # 42 and "42" are one trace, delivered twice
    assert landed.query("select n_superseded from stg_landing_accounting where path like '%/ids.jsonl'") == [(1,)]


def test_typed_parquet_reads_as_its_json_would(landed: Warehouse) -> None:
    rows: list[tuple[Any, ...]] = landed.query(
        "select trace_id, traced_at::varchar, retrieved[1].chunk_id from stg_retrieval_traces "
        "where file_id = (select file_id from stg_landing_accounting where path like '%/typed.parquet')"
    )
    assert rows == [("1", "2026-11-30 00:53:20.25", "7")]
    assert landed.query(
        "select line_number, reject_reason from stg_quarantine where path_to_read like '%/typed.parquet'"
    ) == [(2, "missing_ts")]


def test_links_and_hidden_files_are_not_landed(landed: Warehouse) -> None:
    paths = [str(path) for (path,) in landed.query("select path from stg_landing_files")]
    assert not [path for path in paths if re.search(r"(^|/)[._]|link", path)]
    assert landed.query("select * from stg_retrieval_traces where trace_id = 'not landed'") == []


def test_folders_that_do_not_exist_are_empty(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.build()
    tables = [
        str(name)
        for (name,) in warehouse.query("select table_name from information_schema.tables where table_name like 'stg_%'")
    ]
    assert len(tables) >= 9
    assert {table: warehouse.query(f"select count(*) from {table}") for table in tables} == {
        table: [(0,)] for table in tables
    }


def test_a_large_share_of_bad_lines_fails_the_night_and_stages_the_rest(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    rows = [trace(f"good {number}") for number in range(94)] + [trace(f"bad {number}", ts=None) for number in range(6)]
    warehouse.land("retrieval_traces", rows)
    warehouse.land("feedback", [FEEDBACK | {"ts": None}] * 99)  # too few lines to tell
    with pytest.raises(BuildFailed, match=r"quarantined_lines_are_few.*Got 1 result"):
        warehouse.build({"max_quarantined_share": 0.05})
    assert warehouse.query("select count(*) from stg_retrieval_traces") == [(94,)]


# --- values that no sane tracer writes -------------------------------------------------------

NAN = float("nan")
BEYOND = "294247-01-10 04:00:54Z"  # the last second of a DuckDB timestamp
HOSTILE: list[tuple[str, dict[str, object]]] = [
    ("retrieval_traces", {"ts": BEYOND}),
    ("retrieval_traces", {"ingested_at": BEYOND}),
    ("retrieval_traces", {"ts": -99999999999999999}),
    ("feedback", {"ts": BEYOND}),
    ("feedback", {"weight": NAN}),
    ("feedback", {"weight": 1e300}),
    ("feedback", {"signal": "audit", "inclusion_probability": 0}),
    ("feedback", {"signal": "audit", "inclusion_probability": 2}),
    ("feedback", {"signal": "audit", "inclusion_probability": NAN}),
    ("feedback", {"session_id": ""}),
]


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("hostile"))
    good = {"retrieval_traces": trace("good", retrieved=[{"chunk_id": "a"}]), "feedback": FEEDBACK | {"signal": "copy"}}
    for contract, row in good.items():
        rows = [row | values for landed_in, values in HOSTILE if landed_in == contract]
        warehouse.land(contract, [row, *rows])
    # an id that is blank is none
    warehouse.land(
        "retrieval_traces",
        [{"trace_id": "", "session_id": "", "ts": NOON, "query": query} for query in ("one", "two")],
        "blank-ids.jsonl",
    )
    # what the documented names do not cover is not landed
    for name in ("part.json", "notes.txt", "rows.jsonl.bz2"):
        warehouse.land("feedback", [FEEDBACK], name)
    warehouse.build({"max_quarantined_share": 1.0})
    return warehouse


@pytest.mark.parametrize(("contract", "values"), HOSTILE, ids=str)
def test_a_hostile_value_costs_its_own_line_only(hostile: Warehouse, contract: str, values: dict[str, object]) -> None:
    place = [row for landed_in, row in HOSTILE if landed_in == contract].index(values) + 2
    lines = hostile.query(
        "select line_number from stg_quarantine where path_to_read like ? order by line_number",
        f"%/{contract}/part-0.jsonl",
    )
    assert (place,) in lines
    assert (1,) not in lines


def test_a_blank_id_is_none(hostile: Warehouse) -> None:
    rows = hostile.query(
        "select query, length(trace_id), session_id = trace_id from stg_retrieval_traces "
        "where query in ('one', 'two') order by query"
    )
    assert rows == [("one", 64, True), ("two", 64, True)]


def test_files_of_other_names_are_not_landed(hostile: Warehouse) -> None:
    assert hostile.query("select path from stg_landing_accounting where n_staged > 0 and contract = 'feedback'") == [
        ("feedback/part-0.jsonl",)
    ]
