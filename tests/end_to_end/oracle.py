"""What the tables must say, worked out a second time: plain loops over landed rows, exact fractions, no SQL."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any

from support import PROJECT

Row = Mapping[str, Any]
Score = Fraction | None
Key = tuple[Any, ...]

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
EARLIEST, LATEST = datetime(1, 1, 1), datetime(9999, 1, 1)
STAGES = {"final": "retrieved", "retriever": "candidates"}
TRACE_COUNTS = ("n_traces", "n_fault", "n_stage_absent", "n_unlabelled", "n_scored", "n_no_relevant", "n_undefined",
                "n_no_results", "n_duplicates", "n_missing")  # fmt: skip
LABELLED = ("n_scored", "n_no_relevant", "n_undefined")
UNIT_SUMS = ("n_units", "weight_sum", "weight_square_sum", "judged_sum", "n_judged_defined")


@dataclass(frozen=True)
class World:
    """Landed rows by contract, vars of the project, and cells of `seeds/label_classes.csv` that differ."""

    landing: Mapping[str, list[dict[str, Any]]]
    variables: Mapping[str, Any] = field(default_factory=dict)
    label_classes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    cutoffs: Mapping[str, list[int]]
    segment_dimensions: list[str]
    as_of: datetime | None
    max_rank: int = 1000
    document_id_pattern: str = ""
    upvote_without_correctness: str = "relevant"
    label_lookback_days: int = 90
    long_tail_max_sessions: int = 1
    min_judged_share: Fraction = Fraction(9, 10)
    reported_days: int = 28
    reported_weeks: int = 13


@dataclass(frozen=True)
class LabelClass:
    completeness: str
    relevant_from: int
    evidence_level: str


@dataclass
class Trace:
    trace_id: str
    session_id: str
    at: datetime
    traffic: str
    query_id: str | None
    query: str | None
    eval_run_id: str | None
    values: dict[str, str | None]
    lists: dict[str, list[str | None] | None]  # by stage; a blank chunk id is None
    n_duplicates: dict[str, int]
    n_blank: int
    sample_rate: Fraction
    is_missing: bool = False
    is_long_tail: bool | None = None

    @property
    def weight(self) -> int:
        """One over the sample rate, in millionths."""
        return round(10**6 / self.sample_rate)

    @property
    def is_fault(self) -> bool:
        return self.lists["final"] is None


# --- seeds ------------------------------------------------------------------------------------


def seed(name: str) -> list[dict[str, str]]:
    with (PROJECT / "seeds" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


DISCOUNTS = {int(row["rank"]): int(row["discount"]) for row in seed("rank_discounts")}
CATALOG = {row["metric"]: row for row in seed("metric_catalog")}
SIGNALS = {row["signal"]: row for row in seed("label_signals")}
WORDS = {row["rating_word"]: row["rating_label"] for row in seed("rating_words")}
RULES = sorted(seed("intent_rules"), key=lambda row: int(row["priority"]))
INTENTS = [(row["intent"], re.compile(row["pattern"])) for row in RULES]


def settings(world: World) -> Settings:
    told = dict(world.variables)
    told.pop("max_quarantined_share", None)
    as_of = told.pop("as_of", "")
    defaults: dict[str, Any] = {
        "cutoffs": {"final": [1, 3, 5, 10], "retriever": [10, 20, 50, 100]},
        "segment_dimensions": ["intent", "index_version", "embedding_model", "chunker_version", "reranker_version",
                               "experiment_bucket", "long_tail", "intent x index_version",
                               "experiment_id x experiment_bucket", "experiment_id x experiment_bucket x intent"],
    }  # fmt: skip
    if "min_judged_share" in told:
        told["min_judged_share"] = Fraction(str(told["min_judged_share"]))
    return Settings(as_of=moment(as_of) if as_of else None, **{**defaults, **told})


def label_classes(world: World) -> dict[str, LabelClass]:
    rows = [row | dict(world.label_classes.get(row["label_class"], {})) for row in seed("label_classes")]
    return {
        row["label_class"]: LabelClass(row["completeness"], int(row["relevant_from"]), row["evidence_level"])
        for row in rows
        if row["is_landed"] == "true"
    }


# --- landing ----------------------------------------------------------------------------------


def rows_of(world: World, contract: str) -> list[dict[str, Any]]:
    return world.landing.get(contract, [])


def moment(value: object) -> datetime:
    """Epoch seconds, ms, µs or ns, told by size, or ISO 8601; naive UTC."""
    if isinstance(value, str) and not re.fullmatch(r"[\d.]+", value):
        told = datetime.fromisoformat(value)
        return told.astimezone(UTC).replace(tzinfo=None) if told.tzinfo else told
    number = Fraction(str(value))
    for limit, unit in ((10**11, 1), (10**14, 10**3), (10**17, 10**6)):
        if number < limit:
            number /= unit
            break
    else:
        number /= 10**9
    return datetime(1970, 1, 1) + timedelta(microseconds=floor(number * 10**6))


def ident(value: object) -> str | None:
    """An id is text; a blank one is none."""
    return None if value is None or not str(value).strip() else str(value)


def newest(rows: Iterable[tuple[Key, datetime | None, Row]]) -> list[Row]:
    """Of several deliveries of a key the one delivered last."""
    best: dict[Key, tuple[datetime, Row]] = {}
    for key, delivered, row in rows:
        candidate = (delivered or EARLIEST, row)
        if key not in best or candidate[0] > best[key][0]:
            best[key] = candidate
    return [row for _, row in best.values()]


def delivered(row: Row, event_time: str) -> datetime | None:
    told = row.get("ingested_at") or row.get(event_time)
    return moment(told) if told is not None else None


def is_future(row: Row) -> bool:
    return row.get("ingested_at") is not None and moment(row["ts"]) > moment(row["ingested_at"]) + HOUR


def is_no_list(items: list[dict[str, Any]] | None) -> bool:
    """A list none of whose items has a field."""
    return bool(items) and all(set(item.values()) <= {None} for item in items or [])


def ranked(items: list[dict[str, Any]] | None) -> tuple[list[str | None] | None, int]:
    """Chunk ids by rank where ranks are distinct, else by place; each once; and the repeats dropped."""
    if items is None:
        return None, 0
    ranks = [item.get("rank") for item in items]
    if None not in ranks and len(set(ranks)) == len(ranks):
        items = sorted(items, key=lambda item: item["rank"])
    out: list[str | None] = []
    n_duplicates = 0
    for item in items:
        chunk = ident(item.get("chunk_id"))
        if chunk is not None and chunk in out:
            n_duplicates += 1
        else:
            out.append(chunk)
    return out, n_duplicates


def normalised(query: str | None) -> str | None:
    return re.sub(r"\s+", " ", query or "").strip().lower() or None


VALUES = ("index_version", "embedding_model", "chunker_version", "reranker_version", "prompt_version",
          "corpus_snapshot_id", "experiment_id", "experiment_bucket", "environment", "score_type")  # fmt: skip


def intent_of(logged: object, known: Row | None, query: str | None) -> str:
    if ident(logged):
        return str(logged)
    if known is not None and ident(known.get("intent")):
        return str(known["intent"])
    asked = normalised(query)
    for intent, pattern in INTENTS:
        if asked and pattern.search(asked):
            return intent
    return "unknown"


def landed_traces(world: World, config: Settings, classes: Mapping[str, LabelClass]) -> list[Trace]:
    runs = {
        row["eval_run_id"]: row
        for row in newest(
            ((row["eval_run_id"],), delivered(row, "started_at"), row) for row in rows_of(world, "eval_runs")
        )
    }
    questions: dict[str | None, Row] = {row["query_id"]: row for row in landed_queries(world)}
    traces: list[Trace] = []
    good = []
    for row in rows_of(world, "retrieval_traces"):
        rate = row.get("sample_rate")
        if row.get("ts") is None or is_future(row) or (rate is not None and not 0.000001 <= rate <= 1):
            continue
        if any(is_no_list(row.get(name)) for name in STAGES.values()):
            continue
        key = ident(row.get("trace_id")) or f"auto:{row.get('session_id')}:{moment(row['ts'])}:{row.get('query')}"
        good.append(((key,), delivered(row, "ts"), {**row, "trace_id": key}))
    for landed in newest(good):
        row = dict(landed)
        run_id = ident(row.get("eval_run_id"))
        traffic = "production"
        if run_id is not None:
            traffic = {"scheduled": "scheduled_eval"}.get(
                (runs[run_id].get("kind") or "scheduled") if run_id in runs else "adhoc", "adhoc_eval"
            )
        final, n_final = ranked(row.get("retrieved"))
        first, n_first = ranked(row.get("candidates"))
        query_id = ident(row.get("query_id"))
        values: dict[str, str | None] = {name: ident(row.get(name)) for name in VALUES}
        values["intent"] = intent_of(row.get("intent"), questions.get(query_id), row.get("query"))
        traces.append(
            Trace(
                row["trace_id"], ident(row.get("session_id")) or row["trace_id"], moment(row["ts"]), traffic, query_id,
                row.get("query"), run_id, values, {"final": final, "retriever": first},
                {"final": n_final, "retriever": n_first}, sum(chunk is None for chunk in final or []),
                Fraction(str(row.get("sample_rate") or 1)),
            )
        )  # fmt: skip
    traces += placeholders(world, classes, runs, questions, traces)
    asked: dict[Key, set[str]] = defaultdict(set)
    for trace in traces:
        asked[trace.at.date(), normalised(trace.query)].add(trace.session_id)
    for trace in traces:
        query = normalised(trace.query)
        if query is not None:
            trace.is_long_tail = len(asked[trace.at.date(), query]) <= config.long_tail_max_sessions
        trace.values["long_tail"] = {None: None, True: "long_tail", False: "head"}[trace.is_long_tail]
    return traces


def landed_queries(world: World) -> list[Row]:
    return newest(((row["query_id"],), delivered(row, "added_at"), row) for row in rows_of(world, "queries"))


def placeholders(
    world: World,
    classes: Mapping[str, LabelClass],
    runs: Mapping[str, Row],
    questions: Mapping[str | None, Row],
    traces: list[Trace],
) -> Iterator[Trace]:
    """A judged question of the run's set that no trace of the run answers."""
    answered = {(trace.eval_run_id, trace.query_id) for trace in traces}
    with_candidates = {trace.eval_run_id for trace in traces if trace.lists["retriever"] is not None}
    judged = {
        qrel["query_id"]
        for qrel in landed_qrels(world, classes)
        if classes[qrel["label_class"]].completeness == "complete"
    }
    for run_id, run in runs.items():
        at = moment(run["started_at"])
        for query_id, question in questions.items():
            added = question.get("added_at")
            if (
                question.get("query_set") != run["query_set"]
                or query_id not in judged
                or (run_id, query_id) in answered
                or (added is not None and moment(added) > at)
            ):
                continue
            values: dict[str, str | None] = dict.fromkeys(VALUES)
            values.update({name: ident(run.get(name)) for name in VALUES[:5]})
            values["intent"] = intent_of(None, question, question["query"])
            trace_id = f"missing:{run_id}:{query_id}"
            traffic = "scheduled_eval" if (run.get("kind") or "scheduled") == "scheduled" else "adhoc_eval"
            yield Trace(
                trace_id, trace_id, at, traffic, query_id, question["query"], run_id, values,
                {"final": [], "retriever": [] if run_id in with_candidates else None}, {"final": 0, "retriever": 0},
                0, Fraction(1), is_missing=True,
            )  # fmt: skip


def landed_qrels(world: World, classes: Mapping[str, LabelClass]) -> list[Row]:
    good = []
    for row in rows_of(world, "qrels"):
        label_class = row.get("label_class") or "golden"
        if label_class not in classes or not (ident(row.get("chunk_id")) or ident(row.get("doc_id"))):
            continue
        if not -10 <= row["grade"] <= 10:
            continue
        key = (row["query_id"], ident(row.get("chunk_id")), ident(row.get("doc_id")), row.get("start_char"),
               row.get("end_char"), label_class, ident(row.get("labeller")))  # fmt: skip
        good.append((key, delivered(row, "labelled_at"), {**row, "label_class": label_class}))
    return newest(good)


# --- labels -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vote:
    rater: Key
    at: datetime
    source: Key  # the chunk that was named
    says: Fraction | None  # a grade, or the weight of an implicit signal


def rating_label(row: Row) -> str:
    rating = row.get("rating")
    if rating is None:
        return "unknown"
    word = str(rating).strip().lower()
    if word in WORDS:
        return WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return "unknown"
    match row.get("rating_scale") or "thumb":
        case "thumb":
            return "positive" if number == 1 else "negative" if number in (0, -1) else "unknown"
        case "signed":
            return "positive" if number > 0 else "negative" if number < 0 else "neutral"
        case "stars":
            return "positive" if number > 3 else "negative" if number < 3 else "neutral"
        case "unit":
            return "positive" if number >= 0.5 else "negative"
    return "unknown"


def class_of(row: Row) -> str:
    if row.get("label_class"):
        return str(row["label_class"])
    if row.get("signal") in SIGNALS:
        return SIGNALS[row["signal"]]["label_class"]
    return "implicit" if row.get("implicit") else "explicit"


def says(row: Row, label_class: str, relevant_from: int, config: Settings) -> Fraction | None:
    rating = rating_label(row)
    if label_class == "implicit":
        weight = Fraction(str(row.get("weight", 1) if row.get("weight") is not None else 1))
        if row.get("grade") is not None:
            return weight if row["grade"] >= relevant_from else -weight
        known = SIGNALS.get(row.get("signal") or "")
        if known is not None and known["label_class"] == "implicit":
            if known["min_dwell_ms"] and (row.get("dwell_ms") or 0) < float(known["min_dwell_ms"]):
                return Fraction(0)
            return weight * Fraction(known["weight"])
        return {"positive": weight, "negative": -weight}.get(rating)
    if row.get("grade") is not None:
        return Fraction(row["grade"])
    if rating == "negative":
        return Fraction(0)
    if rating != "positive" or row.get("answer_correct") is False:
        return None
    if row.get("answer_correct") is None and config.upvote_without_correctness == "unjudged":
        return None
    return Fraction(relevant_from)


def is_bad_feedback(row: Row, classes: Mapping[str, LabelClass]) -> bool:
    grade, weight, chunks = row.get("grade"), row.get("weight"), row.get("chunk_ids")
    return (
        row.get("ts") is None
        or is_future(row)
        or not (ident(row.get("session_id")) or ident(row.get("trace_id")))
        or (row.get("label_class") is not None and row["label_class"] not in classes)
        or (grade is not None and not -10 <= grade <= 10)
        or (weight is not None and not -1000 <= weight <= 1000)
        or (isinstance(chunks, list) and any(ident(chunk) is None for chunk in chunks))
    )


def attached(row: Row, traces: list[Trace], config: Settings) -> Iterator[tuple[Trace, str]]:
    """The traces and chunks that an event labels."""
    at = moment(row["ts"])
    named = row.get("chunk_ids")
    chunks = None if named is None else dict.fromkeys([named] if isinstance(named, str) else map(str, named))
    trace_id, session_id = ident(row.get("trace_id")), ident(row.get("session_id"))
    if trace_id is not None:
        pool = [trace for trace in traces if trace.trace_id == trace_id and not trace.is_missing]
    else:
        pool = [trace for trace in traces if trace.session_id == session_id and not trace.is_missing]
    for chunk in chunks if chunks is not None else [None]:
        found = pool
        if len(pool) > 1:
            found = [t for t in pool if t.at <= at and (chunk is None or chunk in (t.lists["final"] or []))]
            found = sorted(found, key=lambda t: t.at)[-1:]
        for trace in found:
            if at - trace.at > config.label_lookback_days * DAY:
                continue
            for shown in [chunk] if chunk is not None else trace.lists["final"] or []:
                if shown is not None:
                    yield trace, shown


def document(chunk: str, pattern: str) -> str:
    found = re.search(pattern, chunk) if pattern else None
    return (found.group(1) if found else None) or chunk


def verdict(votes: list[Vote], label_class: str, relevant_from: int) -> int | None:
    """What the raters add up to; None is unjudged."""
    latest: dict[Key, Vote] = {}
    for vote in votes:
        key = (vote.rater, vote.source)
        if key not in latest or vote.at > latest[key].at:
            latest[key] = vote
    by_rater: dict[Key, list[Fraction]] = defaultdict(list)
    for (rater, _), vote in latest.items():
        if vote.says is not None:
            by_rater[rater].append(vote.says)
    words = [max(each) for each in by_rater.values()]
    if label_class == "implicit":
        total = sum(words)
        return None if total == 0 else relevant_from if total > 0 else 0
    relevant = [word for word in words if word >= relevant_from]
    other = [word for word in words if word < relevant_from]
    if len(relevant) == len(other):
        return None
    side = relevant if len(relevant) > len(other) else other
    return floor(sum(side) / Fraction(len(side)))


def resolved_labels(
    world: World, config: Settings, classes: Mapping[str, LabelClass], traces: list[Trace]
) -> dict[tuple[str, str], dict[str, int]]:
    """(trace, class) -> evidence -> grade."""

    def known(at: datetime | None) -> bool:
        return config.as_of is None or at is None or at <= config.as_of

    on_trace: dict[Key, list[Vote]] = defaultdict(list)
    good = [
        ((ident(row.get("feedback_id")) or repr(sorted(row.items())),), delivered(row, "ts"), row)
        for row in rows_of(world, "feedback")
        if not is_bad_feedback(row, classes)
    ]
    for row in newest(good):
        at, label_class = moment(row["ts"]), class_of(row)
        if not known(at):
            continue
        of = classes[label_class]
        signal = row.get("signal") if label_class == "implicit" else None
        word = says(row, label_class, of.relevant_from, config)
        for trace, chunk in attached(row, traces, config):
            evidence = document(chunk, config.document_id_pattern) if of.evidence_level == "document" else chunk
            on_trace[trace.trace_id, label_class, evidence].append(
                Vote((ident(row.get("rater_id")), signal), at, (chunk,), word)
            )
    on_query: dict[Key, list[Vote]] = defaultdict(list)
    for row in landed_qrels(world, classes):
        labelled_at = moment(row["labelled_at"]) if row.get("labelled_at") is not None else None
        if not known(labelled_at):
            continue
        of = classes[row["label_class"]]
        chunk_id, doc_id = ident(row.get("chunk_id")), ident(row.get("doc_id"))
        if of.evidence_level == "document":
            evidence = doc_id or document(chunk_id or "", config.document_id_pattern)
        else:
            evidence = chunk_id or doc_id or ""
        word = Fraction(row["grade"])
        if row["label_class"] == "implicit":
            word = Fraction(1 if word >= of.relevant_from else -1)
        on_query[row["query_id"], row["label_class"], evidence].append(
            Vote((ident(row.get("labeller")), None), labelled_at or EARLIEST, (chunk_id, doc_id), word)
        )
    labels: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    by_query: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for (query_id, label_class, evidence), votes in on_query.items():
        grade = verdict(votes, label_class, classes[label_class].relevant_from)
        if grade is not None:
            by_query[query_id].append((label_class, evidence, grade))
    for trace in traces:
        for label_class, evidence, grade in by_query.get(trace.query_id or "", []):
            labels[trace.trace_id, label_class][evidence] = grade
    for (trace_id, label_class, evidence), votes in on_trace.items():
        # what was said of this very trace goes before what is held of its query, unless it adds up to nothing
        grade = verdict(votes, label_class, classes[label_class].relevant_from)
        if grade is not None:
            labels[trace_id, label_class][evidence] = grade
    return {key: grades for key, grades in labels.items() if grades}


# --- metrics ----------------------------------------------------------------------------------


def scored_list(chunks: list[str | None], of: LabelClass, config: Settings) -> list[str | None]:
    if of.evidence_level == "document":
        chunks, _ = ranked([{"chunk_id": c and document(c, config.document_id_pattern)} for c in chunks])  # type: ignore[assignment]
    return chunks[: config.max_rank]


def gain_of(grade: int | None, exponential: bool) -> int:
    grade = max(grade or 0, 0)
    return 2**grade - 1 if exponential else grade


def metrics(found: list[str | None], grades: Mapping[str, int], of: LabelClass, k: int) -> dict[str, Score]:
    """All metrics of a list cut at k (0: the whole list)."""
    n = len(found)
    places = k or n
    top = found[:places]
    relevant = [chunk is not None and grades.get(chunk, of.relevant_from - 1) >= of.relevant_from for chunk in found]
    n_relevant = sum(grade >= of.relevant_from for grade in grades.values())
    # bpref passes over negative grades
    n_other = sum(0 <= grade < of.relevant_from for grade in grades.values())
    hits = sum(relevant[:places])
    judged = sum(chunk in grades for chunk in top)

    def per(a: int | Fraction, b: int) -> Score:
        return Fraction(a, 1) / b if b else None

    precision_at = [Fraction(sum(relevant[: i + 1]), i + 1) for i in range(n)]
    gathered = sum((precision_at[i] for i in range(len(top)) if relevant[i]), Fraction(0))
    answerable = n_relevant > 0 or of.completeness != "complete"
    first = next((i + 1 for i in range(len(top)) if relevant[i]), None)

    def ndcg(exponential: bool) -> Score:
        ideal_gains = sorted((gain_of(grade, exponential) for grade in grades.values()), reverse=True)
        if not any(ideal_gains):
            return None
        ideal = sum(gain * DISCOUNTS[i + 1] for i, gain in enumerate(ideal_gains[: k or None]))
        gained = sum(gain_of(grades.get(chunk or ""), exponential) * DISCOUNTS[i + 1] for i, chunk in enumerate(top))
        return Fraction(gained, ideal)

    out: dict[str, Score] = {
        "n_relevant": Fraction(n_relevant),
        "n_returned": Fraction(n),
        "n_judged": Fraction(judged),
        "n_hits": Fraction(hits),
        "precision": per(hits, places) or Fraction(0),
        "precision_returned": per(hits, len(top)),
        "precision_low": per(hits, places) or Fraction(0),
        "precision_high": per(hits + len(top) - judged, places) or Fraction(0),
        "precision_condensed": per(hits, judged),
        "recall": per(hits, n_relevant),
        "context_recall": per(hits, n_relevant),
        "hit_rate": Fraction(hits > 0) if answerable else None,
        "reciprocal_rank": (Fraction(1, first) if first else Fraction(0)) if answerable else None,
        "ndcg": ndcg(exponential=False),
        "ndcg_exp": ndcg(exponential=True),
        "average_precision": per(gathered, n_relevant),
        "judged": per(judged, len(top)),
        "context_precision": per(gathered, hits) or Fraction(0),
        "r_precision": None,
        "bpref": None,
    }
    if k == 0 and n_relevant:
        out["r_precision"] = Fraction(sum(relevant[:n_relevant]), n_relevant)
        least = min(n_relevant, n_other)
        preferred, above = Fraction(0), 0
        for i, chunk in enumerate(found):
            if relevant[i]:
                preferred += 1 - Fraction(min(above, least), least) if least else 1
            elif grades.get(chunk or "", -1) >= 0:
                above += 1
        out["bpref"] = preferred / n_relevant
    return out


# --- histograms and denominators ----------------------------------------------------------------


def reported(config: Settings, stage: str) -> list[tuple[str, int]]:
    scored = {0, *config.cutoffs[stage]}
    return [
        (metric, int(k))
        for metric, row in CATALOG.items()
        for k in row["reported_k"].split("|")
        if k and int(k) in scored
    ]


def segments(trace: Trace, config: Settings) -> list[tuple[str, str]]:
    def value(dimension: str) -> str:
        return " x ".join(trace.values[part.strip()] or "unknown" for part in dimension.split(" x "))

    return [("total", "total"), *((dimension, value(dimension)) for dimension in config.segment_dimensions)]


def bucket(at: datetime, grain: timedelta) -> datetime:
    return EARLIEST + (at - EARLIEST) // grain * grain


@dataclass
class Sums:
    """By (bucket, traffic, dimension, value, stage, class, metric, k): counts, and the histogram of unit scores."""

    counts: dict[Key, Counter[str]]
    judged: dict[Key, Fraction]
    histogram: dict[Key, dict[Fraction, Fraction]]


def add_up(truth: Truth, grain: timedelta, since: datetime, until: datetime) -> Sums:
    """The traces from `since` to `until`, in buckets of `grain`."""
    counts: dict[Key, Counter[str]] = defaultdict(Counter)
    judged: dict[Key, Fraction] = defaultdict(Fraction)
    units: dict[Key, dict[str, list[tuple[Score, int]]]] = defaultdict(lambda: defaultdict(list))
    for trace in truth.traces:
        if not since <= trace.at < until:
            continue
        places = [(bucket(trace.at, grain), trace.traffic, *segment) for segment in segments(trace, truth.config)]
        for stage, label_class in product(STAGES, truth.classes):
            for metric, k in reported(truth.config, stage):
                outcome, score, share = judge(trace, stage, label_class, metric, k, truth.scores)
                for place in places:
                    key = (*place, stage, label_class, metric, k)
                    count = counts[key]
                    count["n_traces"] += 1
                    count[outcome] += 1
                    count["n_missing"] += trace.is_missing
                    count["n_duplicates"] += trace.n_duplicates[stage]
                    count["n_no_results"] += trace.lists[stage] == [] and not trace.is_missing
                    if outcome in LABELLED:
                        units[key][trace.session_id].append((score, trace.weight))
                    if share is not None:
                        judged[key] += share
                        count["n_judged_defined"] += 1
    histogram: dict[Key, dict[Fraction, Fraction]] = {}
    for key, sessions in units.items():
        bars: dict[Fraction, Fraction] = defaultdict(Fraction)
        grid = CATALOG[key[-2]]["grid"]
        for session in sessions.values():
            known = [score for score, _ in session if score is not None]
            if not known:
                continue
            mean = sum(known, Fraction(0)) / len(known)
            weight = max(weight for _, weight in session)
            counts[key]["n_units"] += 1
            counts[key]["weight_sum"] += weight
            counts[key]["weight_square_sum"] += weight**2
            for value, part in split(mean, Fraction(grid)) if grid else [(mean, Fraction(1))]:
                bars[value] += part * weight
        histogram[key] = dict(bars)
    return Sums(counts, judged, histogram)


def split(score: Fraction, grid: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Between the two neighbours on the grid, so that the mean is kept."""
    low = score // grid * grid
    upper = (score - low) / grid
    return [(low, 1 - upper), (low + grid, upper)] if upper else [(low, Fraction(1))]


def judge(
    trace: Trace, stage: str, label_class: str, metric: str, k: int, scores: Mapping[Key, Mapping[str, Score]]
) -> tuple[str, Score, Score]:
    """Which of the six counts of the denominator a trace belongs to, its score, and its judged@k."""
    if trace.is_fault:
        return "n_fault", None, None
    if trace.lists[stage] is None:
        return "n_stage_absent", None, None
    row = scores.get((trace.trace_id, stage, label_class, k))
    if row is None:
        return "n_unlabelled", None, None
    if row[metric] is not None:
        return "n_scored", row[metric], row["judged"]
    return ("n_no_relevant" if row["n_relevant"] == 0 else "n_undefined"), None, row["judged"]


# --- windows ----------------------------------------------------------------------------------


def windows(as_of: datetime, config: Settings) -> list[tuple[str, datetime, datetime, timedelta]]:
    today = bucket(as_of, DAY)
    this_hour = bucket(as_of, HOUR)
    monday = today - today.weekday() * DAY
    return [
        ("rolling_24h", this_hour - DAY, this_hour, HOUR),
        ("trailing_28d", today - 28 * DAY, today, DAY),
        *(("day", today - (i + 1) * DAY, today - i * DAY, DAY) for i in range(config.reported_days)),
        *(("week", monday - (i + 1) * 7 * DAY, monday - i * 7 * DAY, DAY) for i in range(config.reported_weeks)),
    ]


def is_identifiable(metric: str, completeness: str, judged_share: Score, config: Settings) -> bool:
    needs = CATALOG[metric]["needs"]
    enough = judged_share is not None and judged_share >= config.min_judged_share
    if needs == "complete":
        return completeness == "complete"
    return enough or (needs == "judged_top_k" and completeness == "complete")


def mart(truth: Truth) -> dict[Key, dict[str, Any]]:
    """Window name and start, then the key of a denominator -> what the mart says."""
    out: dict[Key, dict[str, Any]] = {}
    labelled = set()
    for name, start, end, grain in windows(truth.as_of, truth.config):
        sums = truth.days if grain == DAY else truth.hours
        rows: dict[Key, list[Key]] = defaultdict(list)
        for key in sums.counts:
            if start <= key[0] < end:
                rows[key[1:]].append(key)
        for key, parts in rows.items():
            row = window_row(sums, parts, truth)
            traffic, _, _, stage, label_class, _, _ = key
            if any(row[count] for count in LABELLED):
                labelled.add((traffic, stage, label_class))
            out[name, start, *key] = {"window_end_at": end, **row}
    return {key: row for key, row in out.items() if (key[2], key[5], key[6]) in labelled}


def window_row(sums: Sums, parts: list[Key], truth: Truth) -> dict[str, Any]:
    """The sum of some buckets of one key."""
    count = Counter[str]()
    bars: dict[Fraction, Fraction] = defaultdict(Fraction)
    judged = Fraction(0)
    for part in parts:
        count.update(sums.counts[part])
        judged += sums.judged.get(part, 0)
        for value, weight in sums.histogram.get(part, {}).items():
            bars[value] += weight
    total = sum(bars.values(), Fraction(0))
    estimate = sum((value * weight for value, weight in bars.items()), Fraction(0)) / total if total else None
    share = judged / count["n_judged_defined"] if count["n_judged_defined"] else None
    scored = Fraction(count["n_scored"], count["n_traces"])
    label_class, metric = parts[0][5:7]
    completeness = truth.classes[label_class].completeness
    return {
        **{column: count[column] for column in (*TRACE_COUNTS, "n_units")},
        "completeness": completeness,
        "estimate": estimate,
        "n_eff": Fraction(count["weight_sum"] ** 2, count["weight_square_sum"]) if total else None,
        "judged_share": share,
        "estimate_low": (estimate or 0) * scored,
        "estimate_high": (estimate or 0) * scored + 1 - scored,
        "is_identifiable": is_identifiable(metric, completeness, share, truth.config),
    }


class Truth:
    """Everything that is worked out of a world."""

    def __init__(self, world: World) -> None:
        self.config, self.classes = settings(world), label_classes(world)
        self.traces = landed_traces(world, self.config, self.classes)
        self.labels = resolved_labels(world, self.config, self.classes, self.traces)
        self.scores = query_scores(self)
        asked = [trace for trace in self.traces if not trace.is_missing]
        production = [trace for trace in asked if trace.traffic == "production"]
        self.as_of = self.config.as_of or max(trace.at for trace in production or asked)
        this_hour = bucket(self.as_of, HOUR)
        self.days = add_up(self, DAY, EARLIEST, LATEST)
        self.hours = add_up(self, HOUR, this_hour - DAY, this_hour)


def query_scores(truth: Truth) -> dict[Key, dict[str, Score]]:
    """(trace, stage, class, k) -> its metrics; of traces with a label of the class and a list of the stage."""
    scores: dict[Key, dict[str, Score]] = {}
    for trace, stage, (label_class, of) in product(truth.traces, STAGES, truth.classes.items()):
        chunks, grades = trace.lists[stage], truth.labels.get((trace.trace_id, label_class))
        if chunks is not None and grades and not trace.is_fault:
            for k in (0, *truth.config.cutoffs[stage]):
                found = scored_list(chunks, of, truth.config)
                scores[trace.trace_id, stage, label_class, k] = metrics(found, grades, of, k)
    return scores
