"""Each check of notebook 08 accepts the right answer and gives a hint for likely wrong ones."""

from typing import Any

import numpy as np
import pytest

from rag_lab.exercises import nb08

# Three right (one in part) +3, one wrong 0, one refused 0, an answered negative −1, one refused 0: 2 over 7 scored.
TOTAL, STRICT, MEAN = 2, 1, 2 / 7


def test_scores() -> None:
    assert nb08.check_scores((TOTAL, STRICT, MEAN)) is None
    assert nb08.check_scores((2, 1, 0.286)) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        ((3, 1, MEAN), "only a right answer|takes a point"),
        ((5, 1, MEAN), "else 0"),
        ((TOTAL, 2, MEAN), "answered wrongly"),
        ((TOTAL, STRICT, 2 / 8), "no answer"),
        ((TOTAL, STRICT, 0.5), "with a score"),
        ((TOTAL, STRICT), "three numbers"),
    ],
)
def test_wrong_scores(attempt: Any, hint: str) -> None:
    said = str(nb08.check_scores(attempt))
    assert any(part in said for part in hint.split("|"))


# A: the boat was not retrieved. B: it was, and lost. C: it was in the prompt. D: right, but S2 is not it. E: right.
MODES = {
    "A": "retrieval_failed",
    "B": "lost_in_selection",
    "C": "writing_failed",
    "D": "wrong_reason",
    "E": "right",
}


def test_failure_modes() -> None:
    assert nb08.check_failure_modes(MODES) is None
    assert set(nb08.CASES) == set(MODES)


@pytest.mark.parametrize("letter", MODES)
def test_wrong_failure_mode(letter: str) -> None:
    hint = nb08.check_failure_modes(MODES | {letter: "answered_anyway"})
    assert str(hint).startswith(f"{letter} is not 'answered_anyway'. ")
    missing = nb08.check_failure_modes({key: value for key, value in MODES.items() if key != letter})
    assert str(missing).startswith(f"{letter} is not ''")


def test_a_case_is_shown() -> None:
    shown = f"B: {nb08.CASES['B']}".splitlines()
    assert shown[0] == "B: retrieved The kiosk opens at ten. | The boat leaves at noon. | Dogs travel free."
    assert shown[1] == "   in prompt The kiosk opens at ten. | Dogs travel free."
    assert shown[2] == "   written   The boat leaves at ten [S1]."


FILE = "sweep:\n  chunking.strategy: [raw, by_paragraphs]\n  retrieval.top_k: [1, 2, 4, 8]\n"


def test_file() -> None:
    assert nb08.check_file(FILE) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        ("sweep:\n  retrieval.topk: [1, 2]\n", "there is no key 'retrieval.topk'; the nearest is"),
        ("sweep:\n  retrieval.top_k: [1, 2, 4]\n", "3 runs, not 8"),
        ("sweep:\n  retrieval.top_k: [1, 2, 3, 4, 5, 6, 7, 8]\n", "1 indexes, not 2"),
        (FILE.replace("retrieval.top_k", "dialog_history"), "no difference"),
        ("fixed:\n  prompt.system_prompt_path: nowhere.txt\n", "nowhere.txt"),
    ],
    ids=["key", "runs", "indexes", "idle", "file"],
)
def test_wrong_file(attempt: str, hint: str) -> None:
    assert hint in str(nb08.check_file(attempt))


def honest(table: np.ndarray, half: np.ndarray) -> tuple[int, float]:
    best = int(table[:, half].mean(axis=1).argmax())
    return best, float(table[best, ~half].mean())


def test_honest() -> None:
    assert nb08.check_honest(honest) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (lambda table, half: (int(table.mean(axis=1).argmax()), 0.0), "one half only"),
        (lambda table, half: (honest(table, half)[0], table[honest(table, half)[0], half].mean()), "the other half"),
        (lambda table, half: (2, 0.0), "is not the first best"),
    ],
    ids=["all questions", "the choosing half", "always the last"],
)
def test_wrong_honest(attempt: Any, hint: str) -> None:
    assert hint in str(nb08.check_honest(attempt))
