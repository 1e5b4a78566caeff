"""Published numbers, recorded results, and tables that put one beside the other."""

import hashlib
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from rag_lab import notebook, settings
from rag_lab.metrics import Interval

RESULTS = settings.DATA / "results"
REGISTRY = settings.DATA / "published" / "numbers.yaml"
README = settings.PROJECT / "README.md"

NOTEBOOKS = {
    "01_berlin_lost_context": "one document, three sentences, and why two of them cannot be found",
    "02_late_chunking": "embed first, pool later: how it works, when it helps and when not",
    "03_contextual_retrieval": "context written into chunks, prompt caching and its price, hybrid search, reranking",
    "04_late_vs_contextual": "head to head at equal budgets: quality, time, money, failures, and a guide",
}


@dataclass(frozen=True)
class Published:
    """One entry of the registry. ``read`` says how the number was read: primary, transcript or secondary."""

    id: str
    claim: str
    model: str
    data: str
    metric: str
    n: int
    values: dict[str, Any]
    source: dict[str, str]
    read: str
    note: str = ""


def published(id_: str) -> Published:
    """The registry's entry; KeyError naming the known ids where there is none."""
    entries = {e["id"]: Published(**e) for e in yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))}
    if id_ not in entries:
        raise KeyError(f"no published number {id_!r}; the registry has {', '.join(sorted(entries))}")
    return entries[id_]


def write_result(
    id_: str, rows: Sequence[dict[str, Any]], *, model: str, data: str, sha256: str, command: str, seconds: float
) -> Path:
    """Write ``data/results/ID.json``: the rows and where they come from. Intervals are spelled out in each row."""
    provenance = {
        "model": model,
        "data": data,
        "sha256": sha256,
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(seconds, 1),
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {p: version(p) for p in ("rag_lab", "torch", "transformers", "numpy")},
    }
    path = RESULTS / f"{id_}.json"
    text = json.dumps({"id": id_, "provenance": provenance, "rows": list(rows)}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 over the files' bytes, in the order given: what ties a result to its data."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def load_result(id_: str) -> dict[str, Any]:
    """A recorded result as ``write_result`` wrote it; FileNotFoundError naming the id where there is none."""
    path = RESULTS / f"{id_}.json"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in RESULTS.glob("*.json")))
        raise FileNotFoundError(f"no recorded result {id_!r}; there are {known}")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def interval_fields(interval: Interval) -> dict[str, float]:
    """``value, low, high, n`` for a row, rounded to five decimals."""
    rounded = {f: round(getattr(interval, f), 5) for f in ("value", "low", "high")}
    return rounded | {"n": interval.n}


def show_interval(row: dict[str, Any], digits: int = 3) -> str:
    """``0.671 [0.622, 0.718]`` from a row's fields."""
    return f"{row['value']:.{digits}f} [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are text already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def notebooks_table() -> str:
    """The README's list of notebooks with the seconds that each took last."""
    seconds = notebook.measured_seconds()
    rows = [
        [f"[{name}](notebooks/{name}.ipynb)", shows, f"{seconds[name]:.0f} s" if name in seconds else "not measured"]
        for name, shows in NOTEBOOKS.items()
    ]
    return markdown_table(["notebook", "what it shows", "time on 2 cores"], rows)


def replace_between(text: str, name: str, new: str) -> str:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``; ValueError where a mark is missing."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"README.md has no marks {begin} and {end}")
    head, rest = text.split(begin, 1)
    return f"{head}{begin}\n{new}\n{end}{rest.split(end, 1)[1]}"
