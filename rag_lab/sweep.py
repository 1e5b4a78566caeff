"""Run a sweep: every configuration on every question, work that they share done once, results kept as they come."""

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from rag_lab import sweep_cache
from rag_lab.metrics import answer_scores
from rag_lab.papers import interval_fields
from rag_lab.store import content_key
from rag_lab.sweep_config import Sweep, load_sweep
from rag_lab.sweep_jobs import answered
from rag_lab.sweep_plan import plan as plan
from rag_lab.sweep_plan import row_key
from rag_lab.sweep_stages import Result

_START = b'{"number": '  # of every row


def run_sweep(
    config: str | Path | Sweep, executor: Executor | None = None, results: str | Path | None = None
) -> list[dict[str, Any]]:
    """One row a configuration, in their order; ``config`` is a sweep file or a loaded ``Sweep``.

    ``executor`` runs what does not depend on each other side by side: ``ProcessPoolExecutor()``, or a Dask client's
    ``get_executor()``; None is this process. Rows are the same under each, and do not depend on which other
    configurations there are. Paid models are called from this process only, whose spending cap is kept.

    ``results`` (default: ``sweeps/NAME.jsonl`` in the cache folder) gets each row when it is finished, and in the end
    all in order. Run again, a sweep takes up where it was stopped. Rows of other data, prompts, models or code than
    now are dropped, and those with errors run anew. A row: ``number`` from 1, ``key``, ``name`` of the sweep,
    ``configuration``, ``total`` and ``mean`` (with its 95% interval) of ``answer_score``, ``counts`` of the outcomes,
    ``outcomes`` by question id, ``answerable`` (ids), ``diagnosis`` and ``details`` (counts), ``prompt_tokens``,
    ``output_tokens`` and ``dollars`` of its answers, those that it shares included.

    Raises as ``load_sweep`` and, before anything runs, ValueError for a file of other content than results and a
    paid model in mode *offline*, RuntimeError where its key is missing or another process writes to ``results``;
    OverBudget at the cap.
    """
    from filelock import FileLock, Timeout
    from tqdm.auto import tqdm

    sweep = config if isinstance(config, Sweep) else load_sweep(config)
    path = Path(results) if results is not None else sweep_cache.folder() / f"{sweep.name}.jsonl"
    print(plan(sweep), file=sys.stderr)
    numbers = {row_key(sweep, c): number for number, c in enumerate(sweep.configurations, 1)}
    keys = {number: key for key, number in numbers.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    locks = sweep_cache.folder() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(locks / content_key(str(path.resolve())), timeout=0):
            rows = _finished(path, numbers, sweep.name)
            todo = [number for number in keys if number not in rows]
            total = len(todo) * len(sweep.questions)
            with tqdm(total=total, unit=" answers", disable=not todo) as bar, open(path, "ab", buffering=0) as file:
                for number, found in answered(sweep, todo, executor, bar.update):
                    configuration = sweep.configurations[number - 1]
                    rows[number] = {"number": number, "key": keys[number], "name": sweep.name}
                    rows[number] |= {"configuration": configuration} | _summed(sweep, found)
                    file.write(_line(rows[number]))
                    os.fsync(file.fileno())
            ordered = [rows[number] for number in sorted(rows)]
            _rewrite(path, ordered)
    except Timeout as error:
        raise RuntimeError(f"{path} is being written by another sweep: wait for it, or name another file.") from error
    return ordered


def _summed(sweep: Sweep, results: Sequence[Result]) -> dict[str, Any]:
    scores = answer_scores([result.outcome for result in results])
    return {
        "total": scores.total,
        "mean": interval_fields(scores.mean) if scores.mean else None,
        "counts": scores.counts,
        "outcomes": {question.id: r.outcome for question, r in zip(sweep.questions, results, strict=True)},
        "answerable": [question.id for question in sweep.questions if question.answerable],
        "diagnosis": dict(sorted(Counter(result.verdict for result in results).items())),
        "details": dict(sorted(Counter(result.detail for result in results).items())),
        "prompt_tokens": sum(result.prompt_tokens for result in results),
        "output_tokens": sum(result.output_tokens for result in results),
        "dollars": round(sum(result.dollars for result in results), 6),
    }


def _finished(path: Path, numbers: Mapping[str, int], name: str) -> dict[int, dict[str, Any]]:
    """The rows in the file that still hold, by number; the file is left with these only."""
    if not path.exists():
        return {}
    *lines, cut = path.read_bytes().split(b"\n")  # what follows the last line end is a row that was cut short
    if not (cut.startswith(_START) or _START.startswith(cut)):
        raise ValueError(f"{path}, line {len(lines) + 1} is no row of a sweep: name another file for results.")
    rows: dict[int, dict[str, Any]] = {}
    for place, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            key, errors = row["key"], row["counts"]["error"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {place} is no row of a sweep: name another file for results.") from error
        if key in numbers and not errors:
            number = numbers[key]
            rows[number] = row | {"number": number, "name": name}
    if len(rows) < len(lines):
        print(
            f"{path}: {len(lines) - len(rows)} of {len(lines)} rows are of other data, models, code or settings, or "
            "have errors, and are dropped.",
            file=sys.stderr,
        )
    _rewrite(path, [rows[number] for number in sorted(rows)])
    return rows


def _rewrite(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(b"".join(map(_line, rows)))
    os.replace(part, path)


def _line(row: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode()
