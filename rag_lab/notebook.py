"""What every notebook begins and ends with: the set-up line, claim cells and exercise checks."""

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from rag_lab import settings

CLAIM_PREFIX = "claim holds: "
TIMES = settings.DATA / "results" / "notebook_seconds.json"


def start(name: str, models: tuple[str, ...] = ("minilm",)) -> None:
    """Print versions, models, mode and the run time measured last; ``name`` is the file name without suffix."""
    packages = ", ".join(f"{p} {version(p)}" for p in ("rag_lab", "torch", "transformers", "numpy"))
    print(f"{name}: Python {platform.python_version()}, {packages}")
    print(f"models: {', '.join(models)}; mode: {settings.mode()}")
    seconds = measured_seconds().get(name)
    print(f"last measured run: {seconds:.0f} s on 2 cores" if seconds else "no run time measured yet")


def measured_seconds() -> dict[str, float]:
    """Seconds per notebook as ``make notebooks`` measured them last."""
    return json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}


def claim(sentence: str, holds: bool) -> None:
    """State what the text above relies on; AssertionError where this run does not support it.

    TypeError for what is not True or False: NaN, say, is no support.
    """
    if type(holds).__name__ not in ("bool", "bool_"):  # Python's and NumPy's
        raise TypeError(f"a claim holds or does not, and {holds!r} is neither: compare it with something.")
    if not holds:
        raise AssertionError(f"this run does not support the claim: {sentence}")
    print(CLAIM_PREFIX + sentence)


def exercise(attempt: Any, test: Callable[[Any], str | None]) -> bool:
    """Check an attempt and print one line: not attempted (None or ...), right, or the hint that ``test`` returns."""
    if attempt is None or attempt is ...:
        print("not attempted yet: replace the ... and run the cell again")
        return False
    hint = test(attempt)
    print(f"not yet: {hint}" if hint else "right")
    return hint is None
