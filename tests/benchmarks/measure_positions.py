"""Position curves of SmolLM2: key-value records, and the paper's NQ-Open questions.

python -m tests.benchmarks.measure_positions key_value      data/results/position_key_value.json, minutes
python -m tests.benchmarks.measure_positions nq             data/results/position_nq.json, an hour or two

Every answer is kept in the cache folder (``positions.jsonl``) as it comes, so an interrupted run can be resumed. nq
needs the nq-oracle data (RAG_LAB_DATA).
"""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

from rag_lab import results, settings
from rag_lab.datasets import files_of
from rag_lab.llm.local import LocalLLM
from rag_lab.positions.conditions import ConditionResults, Measure
from rag_lab.positions.curves import PositionCurve, position_curve, shuffle_positions
from rag_lab.positions.key_value import KeyValueTask
from rag_lab.positions.multi_document import MultiDocumentTask, baselines, paper_file
from rag_lab.storage import Store

COMMAND = "python -m tests.benchmarks.measure_positions"
MEASURES: tuple[Measure, ...] = ("accuracy", "log_likelihood")

KEY_VALUE: list[tuple[KeyValueTask, list[int], int]] = [
    (KeyValueTask(20), [0, 2, 5, 10, 15, 17, 19], 60),
    (KeyValueTask(10), [0, 2, 5, 7, 9], 40),
    (KeyValueTask(40), [0, 5, 10, 20, 30, 35, 39], 40),
    (KeyValueTask(60), [0, 5, 15, 30, 45, 55, 59], 40),
    (KeyValueTask(20, query_aware=True), [0, 2, 5, 10, 15, 17, 19], 40),
    (KeyValueTask(20, "json"), [0, 5, 10, 15, 19], 20),
]
NQ: list[tuple[int, list[int], int]] = [
    (10, [0, 4, 9], 100),
    (20, [0, 4, 9, 14, 19], 100),
]


def rows_of(curve: PositionCurve) -> list[dict[str, Any]]:
    """One row per measure and position, and per measure one with the shape and that of the permutation control."""
    rows = curve.rows("position", MEASURES)
    for measure in MEASURES:
        shape = curve.classify(measure)
        rows.append(
            {
                "task": curve.task,
                "measure": measure,
                "shape": shape.shape,
                "ends_against_middle": results.interval_fields(shape.ends_against_middle),
                "first_against_last": results.interval_fields(shape.first_against_last),
                "weaker_end_against_middle": results.interval_fields(shape.weaker_end_against_middle),
                "null_shape": shuffle_positions(curve).classify(measure).shape,
                "null_flat_of_100": sum(
                    shuffle_positions(curve, s).classify(measure).shape == "flat" for s in range(100)
                ),
            }
        )
        print(f"{curve.task}, {measure}: {shape}", flush=True)
    return rows


def key_value(llm: LocalLLM, store: Store) -> Iterator[list[dict[str, Any]]]:
    for task, positions, n in KEY_VALUE:
        yield rows_of(position_curve(llm, task, positions, n, store=store))


def nq(llm: LocalLLM, store: Store) -> Iterator[list[dict[str, Any]]]:
    for documents, positions, n in NQ:
        task = MultiDocumentTask.natural_questions(documents)
        if documents == NQ[0][0]:
            outcomes: ConditionResults = baselines(llm, task, n, store=store)
            yield outcomes.rows("condition", MEASURES)
        yield rows_of(position_curve(llm, task, positions, n, store=store))


def main() -> int:
    """Measure one part, and record after each curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["key_value", "nq"])
    part = parser.parse_args().part
    llm = LocalLLM.load("smollm2")
    store = Store(settings.cache_folder() / "positions.jsonl")
    started = time.perf_counter()
    kept = f"; {len(store)} answers were kept by earlier runs, whose seconds are not counted"
    if part == "key_value":
        data = "records made with seed 0: 'The access code for the X office is NNNN.', or UUID pairs as JSON"
        sha256 = ""
    else:
        files = [path for documents in (10, 20) if (path := paper_file(documents))] or files_of("nq-oracle")
        data = f"{', '.join(path.name for path in files)}, seed 0, BM25 distractors where it is the oracle file"
        sha256 = results.digest(files)
    rows: list[dict[str, Any]] = []
    for more in (key_value if part == "key_value" else nq)(llm, store):
        rows += more
        results.write_result(
            f"position_{part}",
            rows,
            model=f"smollm2, {llm.dtype}",
            data=data + kept,
            sha256=sha256,
            command=f"{COMMAND} {part}",
            seconds=time.perf_counter() - started,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
