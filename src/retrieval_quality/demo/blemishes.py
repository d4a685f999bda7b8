"""The planted imperfections of the demo's landing files, and their exact counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from retrieval_quality.demo.corpus import Corpus
from retrieval_quality.demo.feedback import Feedback
from retrieval_quality.demo.landing import Delivery, delivery, digest
from retrieval_quality.demo.rows import feedback_row, trace_row
from retrieval_quality.demo.search import TOP_K, Hit
from retrieval_quality.demo.traffic import Ranking, Trace

# Every n-th production trace, counted from the offset, gets the blemish.
NO_RESULTS_EVERY, NO_RESULTS_OFFSET = 613, 41
REPEATED_EVERY, REPEATED_OFFSET = 577, 60
BAD_SCORE_EVERY, BAD_SCORE_OFFSET = 401, 83
REDELIVERED_EVERY, REDELIVERED_OFFSET = 211, 17
REDELIVERY_DELAY_S = 3 * 3600
N_ORPHANS = 3


@dataclass(frozen=True)
class Blemish:
    """An imperfection and how often it occurs in the landed files."""

    name: str
    n: int
    description: str


@dataclass(frozen=True)
class BlemishedLines:
    """Lines of production traces and simulated feedback, and what is wrong with them."""

    lines: tuple[Delivery, ...]
    blemishes: tuple[Blemish, ...]


def with_faults(sessions: Sequence[tuple[Trace, ...]]) -> tuple[tuple[Trace, ...], ...]:
    """The sessions with some searches that found nothing, and some that name a chunk twice."""
    faulty = []
    number = 0
    for session in sessions:
        traces = []
        for trace in session:
            if number % NO_RESULTS_EVERY == NO_RESULTS_OFFSET:
                traces.append(_without_results(trace))
            elif number % REPEATED_EVERY == REPEATED_OFFSET and len(trace.ranking.final) > 1:
                traces.append(_with_repeated_chunk(trace))
            else:
                traces.append(trace)
            number += 1
        faulty.append(tuple(traces))
    return tuple(faulty)


def blemished_lines(
    corpus: Corpus, traces: Sequence[Trace], feedback: Sequence[Feedback], *, end: int
) -> BlemishedLines:
    """Production traces and feedback delivered by ``end`` (epoch seconds), blemishes included."""
    landed = [t for t in traces if t.delivered_at <= end]
    seen = [f for f in feedback if f.delivered_at <= end]
    trace_lines, n_nan, n_null = _trace_lines(corpus, landed)
    feedback_lines = [delivery("feedback", f.delivered_at, feedback_row(f, corpus)) for f in seen]
    again = _until(end, _redelivered(corpus, landed))
    orphans = _until(end, _orphans(corpus, seen))
    cut = [_cut(lines[len(lines) // 2]) for lines in (trace_lines, feedback_lines) if lines]
    n_on_their_way = len(traces) - len(landed) + len(feedback) - len(seen)
    counts = (
        ("duplicate_deliveries", len(again), "a trace landed twice, identical or hours later"),
        ("malformed_lines", len(cut), "the first half of a line: one trace, one feedback"),
        ("repeated_chunks", sum(map(_repeats, landed)), "a list naming its best chunk twice"),
        (
            "no_results",
            sum(map(_is_empty, landed)),
            "empty lists: planted, or no query word is indexed",
        ),
        ("nan_scores", n_nan, "a last score that is NaN"),
        ("null_scores", n_null, "a last score that is null"),
        ("late_feedback", sum(map(_is_late, seen)), "simulated feedback landed 20-30 hours late"),
        ("orphan_feedback", len(orphans), "simulated feedback on a trace that nobody logged"),
        ("feedback_without_trace_id", sum(f.trace_id is None for f in seen), "only its session"),
        ("flipped_feedback", sum(f.is_flipped for f in seen), "the simulated user is mistaken"),
        ("not_yet_landed", n_on_their_way, "traces and feedback on their way at the end: no line"),
    )
    return BlemishedLines(
        lines=(*trace_lines, *again, *feedback_lines, *orphans, *cut),
        blemishes=tuple(Blemish(*count) for count in counts),
    )


def _without_results(trace: Trace) -> Trace:
    """The trace as a search that found nothing."""
    return replace(trace, ranking=Ranking((), ()))


def _with_repeated_chunk(trace: Trace) -> Trace:
    """The trace with its best passage repeated at the end of the list, in place of the last."""
    final = trace.ranking.final
    repeated = (*final[: TOP_K - 1], Hit(final[0].passage, final[-1].score))
    return replace(trace, ranking=replace(trace.ranking, final=repeated))


def _trace_lines(corpus: Corpus, traces: Sequence[Trace]) -> tuple[list[Delivery], int, int]:
    """Lines of the traces, and how many have a NaN and a null score in turn."""
    lines = []
    n_bad = [0, 0]
    for number, trace in enumerate(traces):
        row = trace_row(trace, corpus)
        if number % BAD_SCORE_EVERY == BAD_SCORE_OFFSET and trace.ranking.final:
            turn = sum(n_bad) % 2
            n_bad[turn] += 1
            row = trace_row(trace, corpus, last_score=(math.nan, None)[turn], replace_last=True)
        lines.append(delivery("retrieval_traces", trace.delivered_at, row))
    return lines, n_bad[0], n_bad[1]


def _redelivered(corpus: Corpus, traces: Sequence[Trace]) -> Iterator[Delivery]:
    """Second deliveries: by turns the same line again, and the trace delivered hours later."""
    for turn, trace in enumerate(traces[REDELIVERED_OFFSET::REDELIVERED_EVERY]):
        delay = REDELIVERY_DELAY_S if turn % 2 else 0
        later = replace(trace, delivered_at=trace.delivered_at + delay)
        yield delivery("retrieval_traces", later.delivered_at, trace_row(later, corpus))


def _orphans(corpus: Corpus, feedback: Sequence[Feedback]) -> Iterator[Delivery]:
    """Feedback on sessions and traces that do not exist, spread over the period."""
    for number in range(1, N_ORPHANS + 1):
        position = number * len(feedback) // (N_ORPHANS + 1)
        for event in feedback[position : position + 1]:
            orphan = replace(
                event,
                feedback_id=f"f-{digest('orphan', number, event.feedback_id)}",
                session_id=f"s-{digest('orphan', number)}",
                trace_id=f"t-{digest('orphan', number)}",
            )
            yield delivery("feedback", orphan.delivered_at, feedback_row(orphan, corpus))


def _cut(line: Delivery) -> Delivery:
    """The first half of a line, as a writer that was killed leaves it."""
    return replace(line, line=line.line[: len(line.line) // 2])


def _until(end: int, lines: Iterable[Delivery]) -> list[Delivery]:
    """The lines delivered by ``end`` (epoch seconds)."""
    return [line for line in lines if line.delivered_at <= end]


def _repeats(trace: Trace) -> bool:
    """Whether the final list names a passage twice."""
    return len({h.passage for h in trace.ranking.final}) < len(trace.ranking.final)


def _is_empty(trace: Trace) -> bool:
    """Whether the final list is empty."""
    return not trace.ranking.final


def _is_late(feedback: Feedback) -> bool:
    """Whether feedback was delivered more than an hour after it was given."""
    return feedback.delivered_at - feedback.ts > 3600
