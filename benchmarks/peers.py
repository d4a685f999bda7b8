"""Scoring against ranx, pytrec_eval and ir_measures: the same Parquet files, end to end, values compared.

    python benchmarks/peers.py [--queries 100000] [--python PATH] [--json FILE]

A run of 100 results a query and 20 graded judgments a query (0 to 3, about half of them retrieved), simulated.
Ours: from the files to the table fct_query_scores, all metrics at k = 1, 3, 5, 10 and the whole list, through
the models that dbt compiled from the ranked list on (ideal lists, judged lists, scores). A peer: reading the same
files, its own structures, and the same metrics as far as it has them. Seconds from the first read to the last
value, imports and ranx's compilation left out; each in its own process.
`--python` is the interpreter of peers that are not installed beside us.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from measuring import PROJECT, spend

N_RESULTS: Final = 100
CUTOFFS: Final = (1, 3, 5, 10)
COMPARED: Final = ("precision@5", "recall@10", "ndcg@10", "average_precision@0")
PEERS: Final = ("pytrec_eval", "ir_measures", "ranx")


def main() -> int:
    """Generate, score with each, compare."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=("ours", *PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        try:
            print(json.dumps(SCORERS[arguments.only](arguments.folder)))
        except ModuleNotFoundError as error:
            print(json.dumps({"missing": error.name}))
        return 0
    with tempfile.TemporaryDirectory(prefix="rq-peers-") as name:
        folder = Path(name)
        generate(folder, arguments.queries)
        rows: dict[str, object] = {"n_queries": arguments.queries, "n_results": N_RESULTS}
        for scorer in ("ours", *PEERS):
            output = folder / f"{scorer}.json"
            for python in dict.fromkeys((sys.executable, arguments.python)):
                spent = spend([python, __file__, "--only", scorer, "--folder", str(folder)], output=output)
                rows[scorer] = json.loads(output.read_text()) | {"peak_bytes": spent.peak_bytes}
                if "missing" not in rows[scorer]:
                    break
    text = json.dumps(rows, indent=1)
    if arguments.json:
        arguments.json.write_text(text)
    print(text)
    return 0


def generate(folder: Path, n_queries: int) -> None:
    """`run.parquet` (query_id, chunk_id, rank, score) and `qrels.parquet` (query_id, chunk_id, grade)."""
    import duckdb

    with closing(duckdb.connect()) as connection:
        connection.execute(
            f"""
            copy (
                select 'q' || query as query_id, 'c' || ((hash(query) + rank * 7) % 1000000) as chunk_id,
                    (rank + 1)::integer as rank, 1 / (rank + 1) as score
                from range({n_queries}) queries(query), range({N_RESULTS}) ranks(rank)
            ) to '{folder}/run.parquet' (format parquet)
            """
        )
        connection.execute(
            f"""
            copy (
                select distinct on (query_id, chunk_id)
                    'q' || query as query_id,
                    'c' || ((hash(query) + (hash(query, n) % 200) * 7) % 1000000) as chunk_id,
                    (hash(query, n, 'grade') % 4)::integer as grade
                from range({n_queries}) queries(query), range(20) judgments(n)
                order by query_id, chunk_id, n
            ) to '{folder}/qrels.parquet' (format parquet)
            """
        )


def timed(work: Callable[[], dict[str, float]]) -> dict[str, object]:
    import time

    started = time.perf_counter()
    means = work()
    return {"seconds": time.perf_counter() - started, "means": means}


# What stands in front of scoring, over the files: a ranked list and its labels.
LISTS: Final = """
create or replace view int_ranked_chunks as
select date '2026-01-02' as traced_on, query_id as trace_id, 'final' as stage, rank, chunk_id, chunk_id as doc_id, score
from read_parquet('{folder}/run.parquet')
"""
LABELS: Final = """
insert into int_relevance_labels by name
select date '2026-01-02' as traced_on, query_id as trace_id, 'golden' as label_class, chunk_id as evidence_id, grade,
    grade >= 1 as is_relevant, 1 as day_version
from read_parquet('{folder}/qrels.parquet')
"""
TRACES: Final = """
insert into fct_retrievals by name
select distinct date '2026-01-02' as traced_on, query_id as trace_id, false as is_fault
from read_parquet('{folder}/run.parquet')
"""
SCORED: Final = ("int_relevant_sets", "int_judged_chunks", "fct_query_scores")


def ours(folder: Path) -> dict[str, object]:
    """The compiled models between a labelled list and its scores, as the conformance tests run them."""
    sys.path.insert(0, str(PROJECT / "tests"))
    from conformance.scoring import compile_scoring

    scoring = compile_scoring(folder / "compiled", CUTOFFS)
    connection = scoring.connection
    fills = [fill for name in SCORED for fill in scoring.fills if fill.startswith(f'insert into "{name}"')]
    assert len(fills) == len(SCORED)

    def work() -> dict[str, float]:
        for statement in (LISTS, LABELS, TRACES):
            connection.execute(statement.format(folder=folder))
        for fill in fills:
            connection.execute(fill)
        compared = [name.split("@") for name in COMPARED]
        means = ", ".join(f"avg({metric}) filter (where k = {k})" for metric, k in compared)
        row = connection.execute(f"select {means} from fct_query_scores where stage = 'final'").fetchone()
        return dict(zip(COMPARED, row or (), strict=True))

    return timed(work)


def dictionaries(folder: Path) -> tuple[dict, dict]:
    import pyarrow.parquet as pq

    found = []
    for name, value in (("run", "score"), ("qrels", "grade")):
        table = pq.read_table(folder / f"{name}.parquet")
        queries: dict = {}
        columns = (table[column].to_pylist() for column in ("query_id", "chunk_id", value))
        for query, chunk, number in zip(*columns, strict=True):
            queries.setdefault(query, {})[chunk] = number
        found.append(queries)
    return found[0], found[1]


def by_pytrec_eval(folder: Path) -> dict[str, object]:
    import pytrec_eval

    at = ",".join(map(str, CUTOFFS))
    measures = {
        f"P.{at}", f"recall.{at}", f"ndcg_cut.{at}", f"map_cut.{at}", f"success.{at}",
        "map", "ndcg", "recip_rank", "bpref", "Rprec",
    }  # fmt: skip

    def work() -> dict[str, float]:
        run, qrels = dictionaries(folder)
        scores = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
        return {
            name: sum(row[theirs] for row in scores.values()) / len(scores)
            for name, theirs in zip(COMPARED, ("P_5", "recall_10", "ndcg_cut_10", "map"), strict=True)
        }

    return timed(work)


def by_ir_measures(folder: Path) -> dict[str, object]:
    import ir_measures
    from ir_measures import AP, RR, Bpref, P, R, Rprec, Success, nDCG

    measures = [measure @ k for k in CUTOFFS for measure in (P, R, nDCG, AP, RR, Success)]
    measures += [AP, nDCG, RR, Bpref, Rprec]

    def work() -> dict[str, float]:
        run, qrels = dictionaries(folder)
        means = ir_measures.calc_aggregate(measures, qrels, run)
        return dict(zip(COMPARED, (means[P @ 5], means[R @ 10], means[nDCG @ 10], means[AP]), strict=True))

    return timed(work)


def by_ranx(folder: Path) -> dict[str, object]:
    import pyarrow.parquet as pq
    from ranx import Qrels, Run, evaluate

    names = ("precision", "recall", "ndcg", "map", "mrr", "hit_rate")
    measures = [f"{name}@{k}" for k in CUTOFFS for name in names] + ["map", "ndcg", "mrr", "bpref", "r-precision"]
    # it compiles at the first call, which is no more of its work than an import
    evaluate(Qrels({"q": {"c": 1}}), Run({"q": {"c": 0.5}}), measures)

    def work() -> dict[str, float]:
        names = {"query_id": "object", "chunk_id": "object"}  # it wants what pandas made of text before 3
        frames = [pq.read_table(folder / f"{name}.parquet").to_pandas().astype(names) for name in ("qrels", "run")]
        qrels = Qrels.from_df(frames[0].astype({"grade": "int64"}), "query_id", "chunk_id", "grade")
        run = Run.from_df(frames[1], "query_id", "chunk_id", "score")
        means = evaluate(qrels, run, measures)
        return dict(
            zip(COMPARED, (float(means[n]) for n in ("precision@5", "recall@10", "ndcg@10", "map")), strict=True)
        )

    return timed(work)


SCORERS: Final = {"ours": ours, "pytrec_eval": by_pytrec_eval, "ir_measures": by_ir_measures, "ranx": by_ranx}

if __name__ == "__main__":
    sys.exit(main())
