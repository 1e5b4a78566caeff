"""The checks of notebook 09's exercises. Each returns None if the attempt is right, else a hint."""

import math
from collections.abc import Callable, Sequence

from rag_lab.exercises.hints import number_hint
from rag_lab.metrics import Interval
from rag_lab.results import Comparison, published, verdict

# Exercise 1: a share, the number of questions, and half the width of its 95% interval in points.
HALF_WIDTHS = [(0.5, 100, 9.8), (0.9, 300, 3.39), (0.538, 2655, 1.90), (1.0, 50, 0.0)]

# Exercise 2: the published figure, what was measured, whether it is a gain, and why it is not comparable.
CASES = (
    (0.69, Interval(0.66, 0.61, 0.71, 300), False, ""),
    (0.71, Interval(0.66, 0.63, 0.69, 900), False, ""),
    (1.9, Interval(4.0, 2.5, 5.5, 300), True, ""),
    (1.9, Interval(-0.6, -3.0, 1.7, 300), True, ""),
    (3.7, Interval(6.1, 2.7, 9.6, 248), True, "another encoder"),
    (90.1, Interval(81.5, 76.7, 86.0, 248), False, "another encoder"),
)
KINDS = ("reproduced", "same direction", "not reproduced", "not comparable")

# Exercise 3: the post's failure rates with contextual embeddings and BM25, and without.
BEFORE, AFTER = "dense", "+ contextual BM25"


def check_half_width(attempt: Callable[[float, int], float]) -> str | None:
    """``attempt(share, n)`` is 1.96 standard errors of a share, in points."""
    for share, n, right in HALF_WIDTHS:
        given = attempt(share, n)
        slips = {
            right / 100: "right as a share: times 100 for points",
            2 * right: "that is the whole width; give half",
        }
        otherwise = f"for a share of {share} and n = {n} it returned {given:.3g}: 1.96 times √(p(1 − p)/n), times 100"
        if hint := number_hint(given, right, slips, otherwise):
            return hint
    return None


def check_verdicts(attempt: Sequence[str]) -> str | None:
    """One of ``KINDS`` for each of ``CASES``."""
    if len(attempt) != len(CASES):
        return f"there are {len(CASES)} cases and {len(attempt)} answers"
    for number, (given, (figure, measured, is_gain, because)) in enumerate(zip(attempt, CASES, strict=True), 1):
        if given not in KINDS:
            return f"case {number}: one of {', '.join(KINDS)}, not {given!r}"
        right = verdict(Comparison("", figure, measured, is_gain), because)
        if not right.startswith(given):
            level = "another model's level says nothing; is it a gain, and clear of zero?"
            other = "does the interval hold the published figure? If not, is it a gain clear of zero?"
            return f"case {number}: {level if because else other}"
    return None


def check_questions_needed(attempt: float) -> str | None:
    """The fewest questions at which two independent failure rates differ by more than 1.96 standard errors.

    Two more or fewer are accepted, for rounding on the way.
    """
    rates = published("anthropic_failure_rates").values
    before, after = (rates[name] / 100 for name in (BEFORE, AFTER))
    variance = before * (1 - before) + after * (1 - after)
    right = math.floor(1.96**2 * variance / (before - after) ** 2) + 1
    if attempt < right - 2:
        return "too few: the variances of both rates add up, p(1 − p) for each"
    formula = "1.96²·(p₁(1 − p₁) + p₂(1 − p₂)) / (p₁ − p₂)², rates as shares"
    return f"more than needed: {formula}" if attempt > right + 2 else None


def check_largest_gap(attempt: float) -> str | None:
    """By how many points the hit rate can at most exceed mean recall on the cookbook's questions.

    A question with g golden chunks that has a hit has at least 1/g of its recall.
    """
    counts = published("cookbook_data_shape").values["queries by golden chunks"]
    right = 100 * sum(count * (1 - 1 / gold) for gold, count in counts.items()) / sum(counts.values())
    slips = {right / 100: "right as a share: times 100 for points"}
    hint = "a question with g golden chunks loses at most 1 − 1/g; mean over all questions, those with one included"
    return number_hint(attempt, right, slips, hint)
