"""Predictions: asked of a reader, given by default to a program; drawn with sliders."""

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from rag_lab import notebook

LABELS = ["first", "middle", "last"]


def test_where_nobody_can_type_the_list_stays(capsys: pytest.CaptureFixture[str]) -> None:
    curve = [0.9, 0.5, 0.7]
    notebook.draw(curve, LABELS)
    assert curve == [0.9, 0.5, 0.7]
    assert "my curve: [0.9, 0.5, 0.7]" in capsys.readouterr().out


def test_moving_a_slider_changes_its_value_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(notebook, "_is_live", lambda: True)
    monkeypatch.setattr("IPython.display.display", shown.append)
    curve = [0.9, 0.5, 0.7]
    notebook.draw(curve, LABELS)
    sliders = shown[0].children
    assert [(slider.description, slider.value) for slider in sliders] == [
        ("first", 0.9),
        ("middle", 0.5),
        ("last", 0.7),
    ]
    sliders[1].value = 0.25
    assert curve == [0.9, 0.25, 0.7]


@pytest.mark.parametrize("curve", [[0.5, 0.5], [0.5, 0.5, 1.5], [-0.1, 0.5, 0.5]])
def test_wrong_predictions(curve: list[float]) -> None:
    with pytest.raises(ValueError, match="give 3 values between 0 and 1"):
        notebook.draw(curve, LABELS)


def test_a_program_gets_the_default() -> None:
    assert notebook.predict(..., default=2) == 2


def test_a_reader_must_guess_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "_is_live", lambda: True)
    with pytest.raises(notebook.MissingGuessError, match="Guess first") as refused:
        notebook.predict(..., default=2)
    assert refused.value._render_traceback_() == [str(refused.value)]  # one line, no traceback
    assert notebook.predict(1, default=2) == 1


@pytest.mark.parametrize(
    ("guess", "default", "among"),
    [
        (0, 0.5, ()),
        ([0.1, 0.2, 0.3], [0.5, 0.5, 0.5], ()),
        ({"cities": "late", "code": "naive"}, {"cities": "naive", "code": "naive"}, ("late", "naive")),
        (True, False, ()),
    ],
)
def test_guesses_of_the_right_form(guess: Any, default: Any, among: tuple[str, ...]) -> None:
    assert notebook.predict(guess, default, among) == guess


@pytest.mark.parametrize(
    ("guess", "default", "among"),
    [
        ("two", 2, ()),
        (True, 2, ()),
        ([0.1, ...], [0.5, 0.5], ()),
        ([0.1], [0.5, 0.5], ()),
        ({"cities": "late"}, {"cities": "late", "code": "late"}, ()),
        ("lately", "late", ("late", "naive")),
    ],
)
def test_guesses_of_another_form(guess: Any, default: Any, among: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="write one of the form"):
        notebook.predict(guess, default, among)


def test_a_kernel_that_takes_input_is_live_and_a_headless_one_is_not() -> None:
    book = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("from rag_lab import notebook"),
            nbformat.v4.new_code_cell("notebook.predict(..., default='headless')"),
            nbformat.v4.new_code_cell(
                "get_ipython().kernel._allow_stdin = True\nnotebook.predict(..., default='live')",
                metadata={"tags": ["raises-exception"]},
            ),
        ]
    )
    NotebookClient(book, timeout=60, kernel_name="python3").execute()
    assert book.cells[1].outputs[0].data["text/plain"] == "'headless'"
    assert "Guess first" in "".join(book.cells[2].outputs[0].traceback)
    assert len(book.cells[2].outputs[0].traceback) == 1


def test_conclusions_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    notebook.take_home("One.", "Two.", when_not=["Never."])
    assert shown[0].data == "1. One.\n2. Two.\n\n**When not:**\n\n- Never."
