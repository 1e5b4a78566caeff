"""What every notebook uses: the set-up line, its models, predictions, conclusions, claims and exercises."""

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from rag_lab import settings
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.load import load_llm
from rag_lab.llm.local import LocalLLM
from rag_lab.models.encoder import Encoder, load_encoder
from rag_lab.results import markdown_table, measured_seconds

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


def predict(guess: Any, default: Any, among: Sequence[Any] = ()) -> Any:
    """The reader's ``guess``, written in place of ``...``; ``default`` if a program runs the notebook.

    ``default`` shows the form of a guess, and ``among`` lists the values that it may have or be made of. In a live
    kernel, raises MissingGuessError if the guess is still ``...``. Raises ValueError if it has another form or value.
    """
    if guess is ... and not _is_live():
        return default
    if guess is ...:
        raise MissingGuessError("Guess first: write your answer in place of the first ... and run the cell again.")
    allowed = f", made of {', '.join(map(repr, among))}" if among else ""
    if not _has_form(guess, default, among):
        raise ValueError(f"the guess is {guess!r}; write one of the form {default!r}{allowed}.")
    return guess


class MissingGuessError(Exception):
    """Stops Run All at a prediction that the reader has not made; a notebook shows its message alone."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def _is_live() -> bool:
    """Whether a person may type here: a kernel whose front end takes input. Programs that run notebooks take none."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


def _has_form(guess: Any, example: Any, among: Sequence[Any]) -> bool:
    """Whether the guess is nested as the example is, with values of its kinds, each one of ``among`` if given."""
    if isinstance(example, dict):
        same_keys = isinstance(guess, dict) and guess.keys() == example.keys()
        return same_keys and all(_has_form(guess[key], example[key], among) for key in example)
    if isinstance(example, list):
        same_length = isinstance(guess, list) and len(guess) == len(example)
        return same_length and all(_has_form(*pair, among) for pair in zip(guess, example, strict=True))
    number = isinstance(example, int | float) and not isinstance(example, bool)
    same_kind = isinstance(guess, int | float if number else type(example)) and not (
        number and isinstance(guess, bool)
    )
    return same_kind and (not among or guess in among)


def say(*sentences: str) -> None:
    """Show sentences with numbers in them as text of the notebook. Markdown; a paragraph each."""
    from IPython.display import Markdown, display

    display(Markdown("\n\n".join(sentences)))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show a table."""
    say(markdown_table(header, rows))


def take_home(*sentences: str, when_not: Sequence[str] = ()) -> None:
    """Show the conclusions of a notebook, numbered, and the cases in which its method is the wrong one."""
    lines = [f"{i}. {sentence}" for i, sentence in enumerate(sentences, 1)]
    if when_not:
        lines += ["", "**When not:**", "", *(f"- {case}" for case in when_not)]
    say("\n".join(lines))


def draw(curve: list[float], labels: Sequence[str]) -> None:
    """Show a slider (0 to 1) for each value of ``curve``; moving one changes that value in the list itself.

    So the list is the prediction, whether typed or drawn. Where nobody can type, no slider is shown.
    Raises ValueError unless there is one value between 0 and 1 for each of ``labels``.
    """
    if len(curve) != len(labels) or not all(0 <= value <= 1 for value in curve):
        raise ValueError(f"the prediction is {curve}: give {len(labels)} values between 0 and 1.")
    if not _is_live():
        print(f"my curve: {curve}")
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
