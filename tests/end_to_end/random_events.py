"""What nights bring, from a seed: rows of every kind with their corrections, and lines that nobody can read."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping

from end_to_end.test_nights import DAY, FIRST_DAY
from support import Warehouse

Row = dict[str, object]
Line = tuple[str, str]  # (contract, text)
Changes = Mapping[str, Callable[[], object]]

BAD_LINES = ('{"trace_id": "bro', "[1, 2]", "null", "{}", '{"trace_id": "z", "ts": "yesterday"}', "", '{"unknown": 1}')
CORRECTABLE = (
    "added_at", "chunk_ids", "eval_run_id", "grade", "index_version", "intent", "kind", "label_class", "labelled_at",
    "query_id", "query_set", "rater_id", "rating", "retrieved", "session_id", "started_at", "trace_id", "ts",
)  # fmt: skip


class Rows:
    """Rows as they were first and then, maybe more than once, with some columns corrected."""

    def __init__(self, rng: random.Random, corrected: Collection[str]) -> None:
        self.rng = rng
        self.corrected = corrected

    def one_of(self, *values: object) -> Callable[[], object]:
        return lambda: self.rng.choice(values)

    def named(self, letter: str, n: int) -> Callable[[], str]:
        return lambda: f"{letter}{self.rng.randrange(n)}"

    def time(self, first: int = 0, last: int = 5) -> int:
        return FIRST_DAY + DAY * self.rng.randint(first, last) + self.rng.choice([0, 18_000, 86_399, 43_200])

    def some(self, row: Row, changes: Changes, share: float = 0.4) -> Row:
        return row | {key: new() for key, new in changes.items() if self.rng.random() < share}

    def deliveries(self, contract: str, row: Row, changes: Changes) -> Iterator[tuple[str, Row]]:
        assert changes.keys() <= set(CORRECTABLE)
        changes = {column: new for column, new in changes.items() if column in self.corrected}
        yield contract, row
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            yield contract, self.some(self.some(row, changes), {"ingested_at": lambda: self.time(5, 9)}, share=0.8)

    def ranked(self) -> list[Row] | None:
        ids = self.rng.sample(range(8), self.rng.randint(0, 5))
        chunks: list[Row] = [{"chunk_id": f"c{n}", "score": 1 / (1 + place)} for place, n in enumerate(ids)]
        return self.rng.choice([chunks, chunks, chunks, [*chunks, *chunks[:1]], None])

    def chunk_ids(self) -> list[str]:
        return [f"c{n}" for n in self.rng.sample(range(8), self.rng.randint(0, 3))]

    def all(self) -> Iterator[tuple[str, Row]]:
        session, query, run, trace = self.named("s", 7), self.named("q", 6), self.named("e", 4), self.named("t", 24)
        for n in range(20):
            own: Row = {"trace_id": f"t{n}", "ts": self.time(), "query": self.named("question ", 3)()}
            own = self.some(own | {"retrieved": self.ranked()}, {"query_id": query, "session_id": session}, share=0.7)
            own = self.some(own, {"eval_run_id": run, "sample_rate": self.one_of(0.1, 0.5)}, share=0.3)
            changed: Changes = {"ts": self.time, "retrieved": self.ranked, "index_version": self.named("v", 3)}
            changed |= {"query_id": query, "session_id": session, "eval_run_id": run}
            yield from self.deliveries("retrieval_traces", own, changed)
        for n in range(14):
            own = {"feedback_id": f"f{n}", "session_id": session(), "ts": self.time(0, 8), "rating": True}
            changed = {"rating": self.one_of(1, -1, "up", "neutral"), "session_id": session, "trace_id": trace}
            changed |= {"chunk_ids": self.one_of(None, self.chunk_ids(), [])}
            changed |= {"label_class": self.one_of("audit", "judge", "golden", "implicit"), "rater_id": session}
            yield from self.deliveries("feedback", self.some(own, changed), changed)
        for n in range(6):
            query_set = self.one_of("gold", "canary")
            own = {"query_id": f"q{n}", "query": f"q {n}", "query_set": query_set()}
            changed = {"query_set": query_set, "intent": self.one_of("howto", "lookup", None), "added_at": self.time}
            yield from self.deliveries("queries", self.some(own, changed), changed)
        for _ in range(12):
            own = {"query_id": query(), "chunk_id": self.named("c", 8)(), "grade": self.rng.randint(-1, 3)}
            own = self.some(own, {"labeller": session, "label_class": self.one_of("audit", "judge", "synthetic")})
            changed = {"grade": self.one_of(0, 1, 2, 3), "labelled_at": lambda: self.time(0, 9)}
            yield from self.deliveries("qrels", self.some(own, changed), changed)
        for n in range(3):
            own = {"eval_run_id": f"e{n}", "started_at": self.time(0, 6), "query_set": "gold"}
            changed = {"kind": self.one_of("scheduled", "adhoc"), "query_set": self.one_of("gold", "canary")}
            changed |= {"started_at": self.time, "index_version": self.named("v", 3)}
            yield from self.deliveries("eval_runs", self.some(own, changed), changed)


def events(
    seed: int,
    *,
    corrected: Collection[str] = CORRECTABLE,
    emptied_day: int | None = None,
    future_day: int | None = None,
    bad_lines: Collection[str] = BAD_LINES,
) -> list[Line]:
    """Lines in the order of their delivery, which says nothing."""
    rng = random.Random(seed)
    rows = Rows(rng, corrected)
    landed = list(rows.all())
    # the last that is said of the traces of a day: they are of the next
    landed += [
        (contract, row | {"ts": row["ts"] + DAY, "ingested_at": FIRST_DAY + 10 * DAY})
        for contract, row in landed
        if contract == "retrieval_traces" and (row["ts"] - FIRST_DAY) // DAY == emptied_day
    ]
    if future_day is not None:
        # which nobody delivers before its time, and one that somebody says he did
        to_come: Row = {"trace_id": "to come", "ts": FIRST_DAY + future_day * DAY, "retrieved": rows.ranked()}
        landed += [
            ("retrieval_traces", to_come | said) for said in ({}, {"trace_id": "said", "ingested_at": FIRST_DAY})
        ]
    lines = [(contract, json.dumps(row)) for contract, row in landed]
    lines += [(rng.choice(lines)[0], line) for line in bad_lines]
    rng.shuffle(lines)
    return lines


def land(warehouse: Warehouse, lines: Collection[Line], name: str = "all.jsonl") -> None:
    """Append them to the files of that name, one for each contract."""
    for contract in {contract for contract, _ in lines}:
        file = warehouse.landing / contract / name
        new = "".join(f"{text}\n" for of, text in lines if of == contract).encode()
        old = file.read_bytes() if file.exists() else b""
        warehouse.land(contract, old + (gzip.compress(new) if name.endswith(".gz") else new), name)
