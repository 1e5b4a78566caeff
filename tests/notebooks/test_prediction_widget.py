"""A drawn prediction: sliders write into the list; without a Jupyter server the list stands."""

from typing import Any

import pytest

from rag_lab import notebook

LABELS = ["first", "middle", "last"]


def test_without_a_server_the_list_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    curve = [0.9, 0.5, 0.7]
    notebook.draw(curve, LABELS)
    assert curve == [0.9, 0.5, 0.7]
    assert "my curve: [0.9, 0.5, 0.7]" in capsys.readouterr().out


def test_moving_a_slider_changes_its_value_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setenv("JPY_SESSION_NAME", "05.ipynb")
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
