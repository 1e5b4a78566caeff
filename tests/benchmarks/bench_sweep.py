"""The sweep of data/sweeps/builtin.yaml with its work shared, against its configurations each run alone.

    python -m tests.benchmarks.bench_sweep [--alone 12] [--processes 2]

The peer is the same code: one configuration alone, in an empty cache folder, with nothing of another in memory. The
model stays loaded, so neither time includes loading it. ``--alone`` configurations, evenly spread, are timed; their
mean is used for all. On a machine that does other work too, quote the ratio of CPU times.
Writes data/results/sweep_builtin.json.
"""

import argparse
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag_lab import results, settings
from rag_lab.sweeps import index, run
from rag_lab.sweeps.analysis import best_on_heldout, main_effects, swept
from rag_lab.sweeps.config import Sweep, load_sweep
from rag_lab.sweeps.run import run_sweep

CONFIG = settings.DATA / "sweeps" / "builtin.yaml"


def timed(sweep: Sweep, processes: int = 0) -> tuple[float, float, list[dict[str, Any]]]:
    """Seconds by the clock and of this process' CPU, and the rows, of a sweep in an empty cache folder, with nothing
    in memory but the model."""
    index.load_encoder("minilm")._alone.cache_clear()
    run._reader.cache_clear()
    index._reranker.cache_clear()
    kept = os.environ.get("RAG_LAB_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAG_LAB_CACHE"] = folder
        try:
            started, cpu = time.perf_counter(), time.process_time()
            if processes:
                with ProcessPoolExecutor(processes) as executor:
                    rows = run_sweep(sweep, executor, Path(folder) / "rows.jsonl")
            else:
                rows = run_sweep(sweep, None, Path(folder) / "rows.jsonl")
            return time.perf_counter() - started, time.process_time() - cpu, rows
        finally:
            os.environ.pop("RAG_LAB_CACHE") if kept is None else os.environ.update(RAG_LAB_CACHE=kept)


def compact(row: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """A row with the settings that differ, and without the outcome of every question."""
    kept = ("number", "total", "mean", "counts", "diagnosis")
    return {"configuration": {key: row["configuration"][key] for key in keys}} | {key: row[key] for key in kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alone", type=int, default=12, help="configurations timed alone")
    parser.add_argument("--processes", type=int, default=2, help="for the second, parallel run")
    asked = parser.parse_args()
    sweep = load_sweep(CONFIG)
    n = len(sweep.configurations)
    index.load_encoder("minilm").encode(["warm"])
    shared, shared_cpu, rows = timed(sweep)
    parallel, _, same = timed(sweep, asked.processes)
    if rows != same:
        raise SystemExit("one process and several gave different rows")
    chosen = [n * i // asked.alone for i in range(asked.alone)]
    alone = []
    for i in chosen:
        *seconds, (row,) = timed(replace(sweep, configurations=(sweep.configurations[i],)))
        if row["outcomes"] != rows[i]["outcomes"]:
            raise SystemExit(f"run {i + 1} alone gave other outcomes than in the sweep")
        alone.append(seconds)
    apart, apart_cpu = (sum(column) / len(alone) * n for column in zip(*alone, strict=True))
    best = best_on_heldout(rows)
    times = {
        "configurations": n,
        "questions": len(sweep.questions),
        "seconds_shared": round(shared, 1),
        "seconds_processes": round(parallel, 1),
        "processes": asked.processes,
        "seconds_alone": round(apart, 1),
        "timed_alone": len(alone),
        "ratio": round(apart / shared, 1),
        "cpu_seconds_shared": round(shared_cpu, 1),
        "cpu_seconds_alone": round(apart_cpu, 1),
        "cpu_ratio": round(apart_cpu / shared_cpu, 1),
    }
    effects = [
        {
            "key": e.key,
            "setting": e.value,
            "configurations": e.configurations,
            **results.interval_fields(e.difference),
        }
        for e in main_effects(rows)
    ]
    winner = {
        "number": best.row["number"],
        "chosen": results.interval_fields(best.chosen),
        "reported": results.interval_fields(best.reported),
        "same": list(best.same),
    }
    results.write_result(
        "sweep_builtin",
        [{"times": times}, {"best": winner}, {"effects": effects}, *(compact(row, swept(rows)) for row in rows)],
        model="minilm",
        data="cities, handbook, insurance",
        sha256=results.digest([*sorted((settings.DATA / "corpora").rglob("*.*")), CONFIG]),
        command=f"python -m tests.benchmarks.bench_sweep --alone {asked.alone} --processes {asked.processes}",
        seconds=shared,
    )
    print(
        f"{n} configurations, {len(sweep.questions)} questions: shared {shared:.1f} s, in {asked.processes} processes"
        f" {parallel:.1f} s (models loaded in each), alone {apart:.1f} s ({len(alone)} timed): {apart / shared:.1f}"
        f" times as long, and {apart_cpu / shared_cpu:.1f} times the CPU time (of which other programs take none)"
    )


if __name__ == "__main__":
    main()
