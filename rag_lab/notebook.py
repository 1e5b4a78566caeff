"""What every notebook uses: the set-up line, its models, claims, exercises, and a prediction drawn with sliders."""

import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from rag_lab import settings
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.load import load_llm
from rag_lab.llm.local import LocalLLM
from rag_lab.models.encoder import Encoder, load_encoder
from rag_lab.results import measured_seconds

CLAIM_PREFIX = "claim holds: "


def encoder() -> Encoder:
    """The encoder that ``RAG_LAB_ENCODER`` names. Raises what ``load_encoder`` raises."""
    return load_encoder()


def language_model() -> LocalLLM | ClaudeLLM:
    """The language model that ``RAG_LAB_LLM`` names. Raises what ``load_llm`` raises."""
    return load_llm()


def start(name: str, models: tuple[str, ...] = ("minilm",)) -> None:
    """Print versions, models, mode and the last measured run time of the notebook ``name`` (without suffix).

    ``models`` are those that the notebook's text and claims were written for.
    """
    packages = ", ".join(f"{p} {version(p)}" for p in ("rag_lab", "torch", "transformers", "numpy"))
    print(f"{name}: Python {platform.python_version()}, {packages}")
    print(f"models: {', '.join(models)}; mode: {settings.mode()}")
    if others := _other_models():
        print(f"{', '.join(others)} instead. The text was written for the models above, so a claim may fail.")
    seconds = measured_seconds().get(name)
    print(f"last measured run: {seconds:.0f} s on 2 cores" if seconds else "no run time measured yet")


def claim(sentence: str, holds: bool) -> None:
    """State what the text above relies on. Raises AssertionError if this run does not support it.

    With other models than the bundled ones, for which the text was written, that is a finding: it is only printed.
    Raises TypeError if ``holds`` is not a bool (NaN, for example).
    """
    if type(holds).__name__ not in ("bool", "bool_"):  # Python's and NumPy's
        raise TypeError(f"a claim holds or does not, and {holds!r} is neither: compare it with something.")
    if holds:
        print(CLAIM_PREFIX + sentence)
    elif others := _other_models():
        print(f"does not hold with {', '.join(others)}: {sentence}")
    else:
        raise AssertionError(f"this run does not support the claim: {sentence}")


def exercise(attempt: Any, test: Callable[[Any], str | None]) -> bool:
    """Check an attempt and print one line: not attempted (None or ...), right, or the hint that ``test`` returns."""
    if attempt is None or attempt is ...:
        print("not attempted yet: replace the ... and run the cell again")
        return False
    hint = test(attempt)
    print(f"not yet: {hint}" if hint else "right")
    return hint is None


def draw(curve: list[float], labels: Sequence[str]) -> None:
    """Show a slider (0 to 1) for each value of ``curve``; moving one changes that value in the list itself.

    So the list is the prediction, whether typed or drawn. Without a Jupyter server (a headless run, most other
    editors) no slider is shown, and the list is edited by hand. Raises ValueError unless there is one value between
    0 and 1 for each of ``labels``.
    """
    if len(curve) != len(labels) or not all(0 <= value <= 1 for value in curve):
        raise ValueError(f"the prediction is {curve}: give {len(labels)} values between 0 and 1.")
    if "JPY_SESSION_NAME" not in os.environ:  # a Jupyter server sets it for the kernels of its notebooks
        print(f"my curve: {curve} (to change it, edit the list in the cell above and run the cell again)")
        return
    from IPython.display import display
    from ipywidgets import FloatSlider, HBox, Layout  # type: ignore[import-untyped]

    def slider(position: int, value: float, label: str) -> FloatSlider:
        layout = Layout(width="90px", height="200px")
        looks = {"orientation": "vertical", "description": label, "readout_format": ".2f", "layout": layout}
        made = FloatSlider(value, min=0, max=1, step=0.05, **looks)
        made.observe(lambda change: curve.__setitem__(position, change["new"]), names="value")
        return made

    display(HBox([slider(i, value, label) for i, (value, label) in enumerate(zip(curve, labels, strict=True))]))


def _other_models() -> list[str]:
    return [name for name in (settings.encoder_name(), settings.llm_name()) if name not in ("minilm", "smollm2")]
