"""What is missing in a team's own data to produce each mart, in plain words."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb


class DoctorError(Exception):
    """The warehouse cannot be looked at; one line."""


@dataclass(frozen=True)
class Need:
    """Something the marts live on.

    `share` is SQL over the staged tables: a share (0-1) of what is there, NULL where the question
    does not arise. From `enough` on nothing is said; at 0 `missing` is, in between `partial`, whose
    `{share}` is filled in.
    """

    marts: tuple[str, ...]
    share: str
    enough: float
    missing: str
    partial: str = ""


@dataclass(frozen=True)
class Finding:
    """What is missing (`share` 0) or in part missing, and the marts that suffer."""

    share: float
    message: str
    marts: tuple[str, ...]


@dataclass(frozen=True)
class Landed:
    """Lines of a contract over all loads, as the accounting has them."""

    contract: str
    n_lines: int
    n_staged: int
    n_quarantined: int


@dataclass(frozen=True)
class Diagnosis:
    """What landed, and what is missing of it, worst first within each group of marts."""

    landed: tuple[Landed, ...]
    findings: tuple[Finding, ...]


_TRACES: Final = "from stg_retrieval_traces"
_SCORED: Final = ("fct_query_scores", "mart_retrieval_quality", "mart_segment_weekly")
_SEGMENTED: Final = ("mart_retrieval_quality", "mart_segment_weekly")
_ANY_TRACE: Final = "(select count(*) > 0 from stg_retrieval_traces)"
_ANY_FEEDBACK: Final = "(select count(*) > 0 from stg_feedback)"
_ANY_QREL: Final = "(select count(*) > 0 from stg_qrels)"


def _share_of_traces(condition: str) -> str:
    return f"select avg(({condition})::integer) {_TRACES}"


def _any_trace(condition: str) -> str:
    return f"select max(({condition})::integer) {_TRACES}"


NEEDS: Final = (
    Need(
        ("every mart",),
        f"select {_ANY_TRACE}::integer",
        1,
        "no traces landed: everything is empty; land `retrieval_traces`",
    ),
    Need(
        _SCORED,
        f"select ({_ANY_FEEDBACK} or {_ANY_QREL})::integer where {_ANY_TRACE}",
        1,
        "no labels landed: nothing can be scored; land `feedback`, or `queries` with `qrels`",
    ),
    Need(
        _SCORED,
        _any_trace("candidates is not null"),
        1,
        "no candidates logged: retriever stage is empty; log `candidates`",
    ),
    Need(
        _SCORED,
        f"select {_ANY_QREL}::integer where {_ANY_TRACE}",
        1,
        "no judged questions: recall, nDCG and average precision cannot be told from feedback alone; "
        "land `queries` and `qrels`, and ask them in `eval_runs`",
    ),
    Need(
        _SCORED,
        "select avg((query_id in (select query_id from stg_retrieval_traces))::integer) "
        "from (select distinct query_id from stg_qrels)",
        0.95,
        "no judged question was ever asked: log `query_id` on the traces of an evaluation run",
        "only {share} of the judged questions were ever asked: log `query_id` on the traces of evaluation runs",
    ),
    Need(
        _SCORED,
        "select avg((eval_run_id in (select eval_run_id from stg_eval_runs))::integer) "
        f"{_TRACES} where eval_run_id is not null",
        0.99,
        "no evaluation run is declared: its traces count as adhoc, and no verdict reads them; land `eval_runs`",
        "only {share} of the evaluated traces belong to a declared run, the others count as adhoc; land `eval_runs`",
    ),
    Need(
        _SCORED,
        "select avg((attachment = 'attached')::integer) from int_feedback_traces",
        0.9,
        "no feedback finds its trace: log the `trace_id` (or `session_id` and `chunk_ids`) of the trace it is about",
        "only {share} of the feedback finds its trace: log `trace_id` on feedback",
    ),
    Need(
        _SCORED,
        "select max((answer_correct is not null)::integer) from int_feedback where rating_label = 'positive'",
        1,
        "no upvote says whether the answer was right: see vars `upvote_without_correctness`; log `answer_correct`",
    ),
    Need(
        ("mart_exposure_sensitivity",),
        "select max((label_class = 'implicit' and coalesce(len(chunk_ids), 0) > 0)::integer) from int_feedback",
        1,
        "no implicit signal names a chunk: nothing is known of which ranks are looked at; "
        "land `feedback` with `signal` copy or dwell and its `chunk_ids`",
    ),
    Need(
        ("mart_corrected_estimates", *_SCORED),
        "select max((label_class = 'audit' and inclusion_probability is not null)::integer) from int_feedback",
        1,
        "no audited sample: those who give feedback choose themselves; "
        "land `feedback` with `signal` audit and `inclusion_probability`",
    ),
    Need(
        ("mart_corrected_estimates",),
        "select max((label_class = 'judge')::integer) from int_feedback",
        1,
        "no judge: an audit is corrected by implicit feedback alone, which says little; "
        "land `feedback` with `signal` judge for all lists, or for a random part",
    ),
    Need(
        ("mart_retrieval_quality", "mart_segment_weekly"),
        _share_of_traces("session_id <> trace_id"),
        0.95,
        "no sessions: each trace counts as a session of its own, so intervals come out too narrow; log `session_id`",
        "only {share} of the traces have a session, the others count as sessions of their own; log `session_id`",
    ),
    Need(
        ("fct_retrievals", *_SEGMENTED),
        _share_of_traces("query is not null"),
        0.95,
        "no query text: no intent and no long tail; log `query`, or its hash",
        "only {share} of the traces have a query text, the others no intent and no long tail; log `query`",
    ),
    *(
        Need(
            ("dim_versions", *_SEGMENTED),
            _share_of_traces(f"{version} is not null"),
            0.95,
            f"no {version} logged: a change of it cannot be told from a change of quality; log `{version}`",
            f"only {{share}} of the traces say their {version}; log `{version}`",
        )
        for version in ("index_version", "embedding_model", "chunker_version")
    ),
    Need(
        _SEGMENTED,
        _any_trace("experiment_bucket is not null"),
        1,
        "no experiment: its segment is empty; log `experiment_id` and `experiment_bucket` when you run one",
    ),
    Need(
        ("fct_retrievals",),
        _share_of_traces("retrieval_latency_ms is not null"),
        0.95,
        "no latency logged; log `retrieval_latency_ms`",
        "only {share} of the traces have a latency; log `retrieval_latency_ms`",
    ),
    Need(
        ("mart_landing_checks",),
        "select (count(*) > 0)::integer from stg_landing_checks",
        1,
        "the landing check has not run: use `retrieval-quality nightly`, or `check-landing` before `dbt build`",
    ),
)


def diagnose(warehouse: Path) -> Diagnosis:
    """Look at the staged tables of a warehouse, read-only. Raises DoctorError."""
    if not warehouse.is_file():
        raise DoctorError(f"no warehouse at {warehouse}: land traces, then run `retrieval-quality nightly`")
    try:
        with closing(duckdb.connect(str(warehouse), read_only=True)) as connection:
            landed = connection.execute(
                "select contract, sum(n_lines)::bigint, sum(n_staged)::bigint, sum(n_quarantined)::bigint "
                "from stg_landing_accounting group by contract order by contract"
            ).fetchall()
            findings = [found for need in NEEDS if (found := _finding(connection, need)) is not None]
    except duckdb.IOException as error:
        raise DoctorError(f"{warehouse} is in use, probably by a night: {str(error).splitlines()[0]}") from error
    except duckdb.CatalogException as error:
        raise DoctorError(f"{warehouse} was not built to the end: run `retrieval-quality nightly`") from error
    return Diagnosis(tuple(Landed(*row) for row in landed), tuple(findings))


def describe(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis as lines of text."""
    lines = ["What landed:"]
    lines += [
        f"  {landed.contract}: {landed.n_lines:,} lines, {landed.n_staged:,} staged"
        + (f", {landed.n_quarantined:,} in quarantine" if landed.n_quarantined else "")
        for landed in diagnosis.landed
    ]
    lines += ["", "What is missing:"] if diagnosis.findings else ["", "Nothing is missing."]
    lines += [f"  {finding.message}\n      ({', '.join(finding.marts)})" for finding in diagnosis.findings]
    return lines


def _finding(connection: duckdb.DuckDBPyConnection, need: Need) -> Finding | None:
    row = connection.execute(need.share).fetchone()
    share = None if row is None or row[0] is None else float(row[0])
    if share is None or share >= need.enough:
        return None
    text = need.partial.format(share=f"{share:.0%}") if share > 0 and need.partial else need.missing
    return Finding(share, text, need.marts)
