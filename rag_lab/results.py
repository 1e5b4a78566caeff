"""Published numbers, recorded results, and tables that put one beside the other."""

import functools
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

from rag_lab import settings
from rag_lab.metrics import Interval

RESULTS = settings.DATA / "results"
REGISTRY = settings.DATA / "published" / "numbers.yaml"
README = settings.PROJECT / "README.md"

# How a figure was read, in words that stand beside it wherever it is shown.
READ_IN = {
    "primary": "the authors' own pages",
    "transcript": "a copy of the text",
    "secondary": "a third party's notes",
}

NOTEBOOKS = {
    "01_berlin_lost_context": "one document, three sentences, and why two of them cannot be found",
    "02_late_chunking": "embed first, pool later: how it works, when it helps and when not",
    "03_contextual_retrieval": "context written into chunks, prompt caching and its price, hybrid search, reranking",
    "04_late_vs_contextual": "head to head at equal budgets: quality, time, money, failures, and a guide",
    "05_lost_in_the_middle": "the U-curve drawn, measured and set beside published ones; order, number, attention",
    "06_prompt_and_budget": "sources that stay data, injections and guards, a budget to the token, compression",
    "07_citations_and_refusal": "ids, quotes and numbers checked, JSON, streaming, and when to refuse",
    "08_evaluate_and_sweep": "two kinds of question, sweeps, retrieval or writing, and how lucky the winner was",
    "09_paper_numbers": "published beside measured: the whole table, each disagreement, how to read a paper",
    "10_your_documents": "the whole path on a folder of your own: load, look, ask, sweep, diagnose, keep",
}


@dataclass(frozen=True)
class Published:
    """One entry of the registry. ``read`` says how the number was read: a key of ``READ_IN``."""

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

    @property
    def read_in(self) -> str:
        """Where the number was read, in plain words."""
        return READ_IN[self.read]


@dataclass(frozen=True)
class Comparison:
    """One published figure (None where there is none) beside what was measured, in the published unit.

    ``is_gain``: a difference between two methods, whose sign can be compared across models. ``shown``: in the table,
    not only in the results file. A measurement without an interval has ``low == value == high``.
    """

    name: str
    published: float | None
    measured: Interval
    is_gain: bool = False
    shown: bool = True


def verdict(one: Comparison, because: str = "") -> str:
    """*reproduced* (the published value lies in the interval, or within rounding of the value), *same direction*,
    *not reproduced*, or *not comparable* with the reason ``because``; "" where nothing was published.

    The direction is the same where a gain's whole interval lies on the published side of zero; it counts with
    another model too, and then the reason is given with it.
    """
    if one.published is None:
        return ""
    measured = one.measured
    aligned = one.is_gain and (measured.low > 0 < one.published or measured.high < 0 > one.published)
    if because:
        return f"same direction; {because}" if aligned else f"not comparable: {because}"
    if measured.low <= one.published <= measured.high or abs(measured.value - one.published) <= rounding(
        one.published
    ):
        return "reproduced"
    return "same direction" if aligned else "not reproduced"


def rounding(number: float) -> float:
    """Half a unit of the last decimal place that a number is written with: 0.05 for 64.2 and 20.0, 0.5 for 35."""
    decimals = max(len(f"{number:.10f}".rstrip("0").partition(".")[2]), int(isinstance(number, float)))
    return 0.5 * 10**-decimals + 1e-9


def exactly(value: float) -> Interval:
    """What was computed and not sampled: an interval without a width."""
    return Interval(value, value, value, 1)


def in_percent(interval: Interval) -> Interval:
    """The interval of a share, in percent."""
    return Interval(100 * interval.value, 100 * interval.low, 100 * interval.high, interval.n)


def published(id_: str) -> Published:
    """The registry's entry; KeyError naming the known ids where there is none."""
    entries = _registry()
    if id_ not in entries:
        raise KeyError(f"no published number {id_!r}; the registry has {', '.join(sorted(entries))}")
    return entries[id_]


@functools.cache
def _registry() -> dict[str, Published]:
    return {e["id"]: Published(**e) for e in yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))}


def write_result(
    id_: str,
    rows: Sequence[dict[str, Any]],
    *,
    model: str,
    data: str,
    sha256: str,
    command: str,
    seconds: float,
    path: Path | None = None,
) -> Path:
    """Write ``data/results/ID.json``, or ``path``: the rows and where they come from; each spells out its interval.

    ``model`` names each model with its revision and number format.
    """
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
    path = path or RESULTS / f"{id_}.json"
    text = json.dumps({"id": id_, "provenance": provenance, "rows": list(rows)}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
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
    seconds = measured_seconds()
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


TIMES = settings.DATA / "results" / "notebook_seconds.json"


def measured_seconds() -> dict[str, float]:
    """Seconds per notebook as ``make notebooks`` measured them last."""
    return json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
