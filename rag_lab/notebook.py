"""What every notebook begins and ends with: the set-up line, claim cells and exercise checks."""

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from rag_lab import settings
from rag_lab.claude import ClaudeLLM
from rag_lab.encoder import Encoder
from rag_lab.language_models import load_llm
from rag_lab.llm import LocalLLM

CLAIM_PREFIX = "claim holds: "
TIMES = settings.DATA / "results" / "notebook_seconds.json"


def encoder() -> Encoder:
    """The encoder that ``RAG_LAB_ENCODER`` names; RuntimeError for one with code of its own that is not allowed."""
    return Encoder.load(settings.encoder_name(), allow_remote_code=settings.allow_remote_code())


def language_model() -> LocalLLM | ClaudeLLM:
    """The language model that ``RAG_LAB_LLM`` names."""
    return load_llm()


def start(name: str, models: tuple[str, ...] = ("minilm",)) -> None:
    """Print versions, models, mode and the run time measured last; ``name`` is the file name without suffix.

    ``models`` are those that the notebook's text and claims were written for.
    """
    packages = ", ".join(f"{p} {version(p)}" for p in ("rag_lab", "torch", "transformers", "numpy"))
    print(f"{name}: Python {platform.python_version()}, {packages}")
    print(f"models: {', '.join(models)}; mode: {settings.mode()}")
    if others := _other_models():
        print(f"{', '.join(others)} in their place, of which the text does not speak: a claim may fail with it.")
    seconds = measured_seconds().get(name)
    print(f"last measured run: {seconds:.0f} s on 2 cores" if seconds else "no run time measured yet")


def measured_seconds() -> dict[str, float]:
    """Seconds per notebook as ``make notebooks`` measured them last."""
    return json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}


def claim(sentence: str, holds: bool) -> None:
    """State what the text above relies on; AssertionError where this run does not support it.

    With another model than the bundled ones, of which the text speaks, that is a finding and is only printed.
    TypeError for what is not True or False: NaN, say, is no support.
    """
    if type(holds).__name__ not in ("bool", "bool_"):  # Python's and NumPy's
        raise TypeError(f"a claim holds or does not, and {holds!r} is neither: compare it with something.")
    if not holds and (others := _other_models()):
        print(f"does not hold with {', '.join(others)}: {sentence}")
        return
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


def _other_models() -> list[str]:
    return [name for name in (settings.encoder_name(), settings.llm_name()) if name not in ("minilm", "smollm2")]
