"""Each check of notebook 09 accepts the right answer and gives a hint for likely wrong ones."""

import math

import pytest

from rag_lab.exercises import nb09


def half_width(share: float, n: int) -> float:
    return 196 * math.sqrt(share * (1 - share) / n)


def test_half_width() -> None:
    assert nb09.check_half_width(half_width) is None
    assert "points" in str(nb09.check_half_width(lambda p, n: half_width(p, n) / 100))
    assert "half" in str(nb09.check_half_width(lambda p, n: 2 * half_width(p, n)))
    assert "0.5" in str(nb09.check_half_width(lambda p, n: 100 * p / n))


def test_verdicts() -> None:
    # 0.69 in [0.61, 0.71]; 0.71 outside, no gain; a gain above zero; an interval on both sides, without 1.9;
    # another model with the sign; another model and a level.
    right = ["reproduced", "not reproduced", "same direction", "not reproduced", "same direction", "not comparable"]
    assert nb09.check_verdicts(right) is None
    for place in range(len(right)):
        wrong = [*right[:place], "reproduced" if place else "same direction", *right[place + 1 :]]
        assert f"case {place + 1}" in str(nb09.check_verdicts(wrong))
    assert "0 answers" in str(nb09.check_verdicts([]))
    assert "'good'" in str(nb09.check_verdicts(["good", *right[1:]]))


def test_questions_needed() -> None:
    # 3.8416 (0.057 · 0.943 + 0.029 · 0.971) / 0.028² = 3.8416 · 0.08191 / 0.000784 = 401.4
    assert nb09.questions_needed() == 402
    assert nb09.check_questions_needed(401.4) is None
    assert "variances" in str(nb09.check_questions_needed(263))
    assert "more" in str(nb09.check_questions_needed(800))


def test_largest_gap() -> None:
    # (14 · 1/2 + 5 · 2/3 + 6 · 3/4 + 2 · 5/6 + 6/7) / 248 = 17.357 / 248
    assert nb09.largest_gap() == pytest.approx(6.9988, abs=1e-3)
    assert nb09.check_largest_gap(7.0) is None
    assert "points" in str(nb09.check_largest_gap(0.07))
    assert nb09.check_largest_gap(62.0)  # the mean over the 28 questions with several
