"""Notebook 01's check on the cities, and claims and exercises themselves."""

from typing import Any

import numpy as np
import pytest

from rag_lab import notebook
from rag_lab.datasets import load_corpus
from rag_lab.exercises import nb01


class NoEncoder:
    """A test double: every text gets the same vector."""

    def encode(self, texts: list[str], kind: str = "passage") -> Any:
        return np.ones((len(texts), 2), np.float32)


def test_add_title(capsys: pytest.CaptureFixture[str]) -> None:
    cities = load_corpus("cities")
    encoder: Any = NoEncoder()
    right = nb01.check_add_title(lambda d, c: f"{d.title}. {c.text}", cities, encoder)
    assert right is None
    assert "recall@1 with the title" in capsys.readouterr().out
    hint = nb01.check_add_title(lambda d, c: c.text, cities, encoder)
    assert hint is not None
    assert "for chunk" in hint


def test_an_exercise_not_attempted_is_neither_right_nor_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert not notebook.exercise(..., nb01.check_cosine)
    assert "not attempted" in capsys.readouterr().out


def test_a_claim_that_does_not_hold_fails_the_run() -> None:
    with pytest.raises(AssertionError, match="water is dry"):
        notebook.claim("water is dry", False)


@pytest.mark.parametrize("neither", [float("nan"), "yes", 1, None])
def test_a_claim_is_true_or_false(neither: Any) -> None:
    with pytest.raises(TypeError, match="neither"):
        notebook.claim("it is so", neither)
