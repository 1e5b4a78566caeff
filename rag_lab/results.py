"""Published numbers, recorded results, and tables that put one beside the other."""

import hashlib
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from rag_lab import settings
from rag_lab.metrics import Interval
from rag_lab.storage import write_atomic

RESULTS = settings.DATA / "results"
TIMES = RESULTS / "notebook_seconds.json"
REGISTRY = settings.DATA / "published" / "numbers.yaml"

# How a published figure was read. The words are shown wherever the figure is.
READ_IN = {
    "primary": "the authors' own pages",
    "transcript": "a copy of the text",
    "secondary": "a third party's notes",
}


@dataclass(frozen=True)
class Published:
    """One entry of the registry. ``read`` is a key of ``READ_IN``: how the numbers were read."""

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
        """Where the numbers were read, in plain words."""
        return READ_IN[self.read]


@dataclass(frozen=True)
class Comparison:
    """A published figure (None if nothing was published) and the measured one, both in the published unit.

    ``is_gain``: a difference between two methods; its sign can be compared across models. ``shown``: in the table,
    not only in the results file. A measurement without an interval has ``low == value == high``.
    """

    name: str
    published: float | None
    measured: Interval
    is_gain: bool = False
    shown: bool = True


def verdict(one: Comparison, because: str = "") -> str:
    """*reproduced*, *same direction*, *not reproduced*, or *not comparable*; "" if nothing was published.

    Reproduced: the published value lies in the measured interval, or within rounding of the measured value. Same
    direction: a gain whose whole interval lies on the published side of zero. ``because`` says why the run differs
    from the published one; such a run can only have the same direction or be not comparable, with that reason.
    """
    if one.published is None:
        return ""
    measured = one.measured
    same_sign = one.is_gain and (measured.low > 0 < one.published or measured.high < 0 > one.published)
    if because:
        return f"same direction; {because}" if same_sign else f"not comparable: {because}"
    rounds_to_it = abs(measured.value - one.published) <= rounding(one.published)
    if measured.low <= one.published <= measured.high or rounds_to_it:
        return "reproduced"
    return "same direction" if same_sign else "not reproduced"


def rounding(number: float) -> float:
    """Half a unit of the last decimal place that a number is written with: 0.05 for 64.2 and 20.0, 0.5 for 35."""
    decimals = max(len(f"{number:.10f}".rstrip("0").partition(".")[2]), int(isinstance(number, float)))
    return 0.5 * 10**-decimals + 1e-9


def exactly(value: float) -> Interval:
    """An interval without width, for a value that was computed and not sampled."""
    return Interval(value, value, value, 1)


def published(id_: str) -> Published:
    """The registry's entry. Raises KeyError, naming the known ids, if there is none."""
    entries = _registry()
    if id_ not in entries:
        raise KeyError(f"no published number {id_!r}; the registry has {', '.join(sorted(entries))}")
    return entries[id_]


@cache
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
    """Write the rows and their provenance to ``data/results/ID.json`` (or to ``path``), and return the path.

    Each row has its interval's fields (see ``interval_fields``). ``model`` names each model with its revision and
    number format, ``sha256`` is the data's (see ``digest``), ``command`` repeats the run.
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
    write_atomic(path, text + "\n")
    return path


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 over the files' bytes, in the given order: it ties a result to its data."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def load_result(id_: str) -> dict[str, Any]:
    """A recorded result as ``write_result`` wrote it. Raises FileNotFoundError, naming the known ids, if missing."""
    path = RESULTS / f"{id_}.json"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in RESULTS.glob("*.json")))
        raise FileNotFoundError(f"no recorded result {id_!r}; there are {known}")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def interval_fields(interval: Interval) -> dict[str, float]:
    """The fields ``value``, ``low``, ``high`` and ``n`` of a row, rounded to five decimals."""
    rounded = {f: round(getattr(interval, f), 5) for f in ("value", "low", "high")}
    return rounded | {"n": interval.n}


def show_interval(row: dict[str, Any], digits: int = 3) -> str:
    """A row's interval as ``0.671 [0.622, 0.718]``."""
    return f"{Interval.from_row(row):.{digits}f}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are text already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured_seconds() -> dict[str, float]:
    """Seconds per notebook, as ``make notebooks`` measured them last."""
    return json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
