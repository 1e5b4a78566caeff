"""Ours against what a user would pick instead, on the same work, at three sizes.

python -m tests.benchmarks [NAME ...]        about 20 minutes for all

Prints a table with ratios and writes data/results/bench.json. Seconds are CPU seconds; run it as `make bench` does,
with OMP_NUM_THREADS=1. Needs the peers: pip install chonkie sentence-transformers.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rag_lab import results
from rag_lab.llm.local import LocalLLM
from rag_lab.models.number_format import number_format
from rag_lab.sweeps.config import load_sweep
from tests.benchmarks.bench_import import LIMIT
from tests.benchmarks.rows import growth, peak_flops, row, transformer_flops

NAMES = ("import", "bm25", "encoder", "prefix_cache", "positions", "sweep")
HEADER = ("work", "size", "ours s", "peer", "peer s", "ratio", "floor s")


def main() -> int:
    """Exit status 1 where importing the package takes a second or more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all where none is named")
    names = parser.parse_args().names or list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    began = time.perf_counter()
    rows: list[dict[str, Any]] = [] if set(names) == set(NAMES) else recorded_but(names)
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        module = importlib.import_module(f"tests.benchmarks.bench_{name}")
        found = module.rows() if hasattr(module, "rows") else ADAPTED[name](module)
        rows += [{"benchmark": name, **one} for one in found]
        record(rows, time.perf_counter() - began)
    print(results.markdown_table(HEADER, list(map(cells, rows))))
    print("\n".join(["", *growth(rows)]))
    slow = [r for r in rows if r["benchmark"] == "import" and r["ours_seconds"] >= LIMIT]
    if slow:
        print(f"importing rag_lab takes {slow[0]['ours_seconds']} s, a second or more", file=sys.stderr)
    return 1 if slow else 0


def recorded_but(names: list[str]) -> list[dict[str, Any]]:
    """The rows that were recorded of other benchmarks; they stay."""
    try:
        return [one for one in results.load_result("bench")["rows"] if one["benchmark"] not in names]
    except FileNotFoundError:
        return []


def position_rows(module: Any) -> list[dict[str, Any]]:
    """Answers and likelihoods at all positions against ``generate`` and a forward pass a prompt."""
    dtype = number_format("language model").dtype
    llm = LocalLLM.load("smollm2", dtype=dtype, device="cpu")
    found = []
    for count in (10, 20, 60):
        setting = f"{count} sentences"
        one = module.measure(llm, setting, [0, count // 2, count - 1], 4)
        floor = transformer_flops(llm.model.config, [one["tokens_a_prompt"]] * one["prompts"]) / peak_flops(dtype)
        ours, peer = one["cpu_seconds"], one["peer_cpu_seconds"]
        names = "prompts same_answers largest_likelihood_difference times_generate_alone times_by_sharing"
        more = {name: one[name] for name in names.split()}
        found.append(row("position curve", setting, ours, "generate and a forward pass", peer, floor, **more))
    return found


def sweep_rows(module: Any) -> list[dict[str, Any]]:
    """The first configurations of the built-in sweep together, against each alone in an empty cache."""
    sweep = load_sweep(module.CONFIG)
    found = []
    for size in (2, 4, 8):
        step = len(sweep.configurations) // size
        chosen = sweep.configurations[::step][:size]
        shared = module.timed(replace(sweep, configurations=chosen))[1]
        alone = sum(module.timed(replace(sweep, configurations=(one,)))[1] for one in chosen)
        found.append(row("sweep", f"{size} configurations", shared, "each alone", alone))
    return found


ADAPTED: dict[str, Callable[[Any], list[dict[str, Any]]]] = {"positions": position_rows, "sweep": sweep_rows}


def cells(one: dict[str, Any]) -> list[str]:
    """The row's line in the table."""
    floor = one["floor_seconds"]
    seconds = [f"{one['ours_seconds']:.4g}", one["peer"], f"{one['peer_seconds']:.4g}", f"{one['ratio']:.2f}"]
    return [one["work"], one["size"], *seconds, "" if floor is None else f"{floor:.3g}"]


def record(rows: list[dict[str, Any]], seconds: float) -> None:
    """Write data/results/bench.json as the rows come."""
    peaks = {
        dtype: round(peak_flops(dtype) / 1e9)
        for dtype in dict.fromkeys(("float32", number_format("language model").dtype))
    }
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    results.write_result(
        "bench",
        rows,
        model="minilm, smollm2",
        data="SciFact where it is there, built-in corpora, synthetic texts; matrix products reach "
        + ", ".join(f"{peak} GFLOP/s in {dtype}" for dtype, peak in peaks.items()),
        sha256="",
        command=f"OMP_NUM_THREADS={threads} python -m tests.benchmarks",
        seconds=seconds,
    )


if __name__ == "__main__":
    sys.exit(main())
