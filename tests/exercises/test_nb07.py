"""Each check of notebook 07 accepts the right answer and gives a hint for likely wrong ones."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from rag_lab.answering import abstention
from rag_lab.citations.validation import validate_citations
from rag_lab.exercises import nb07


def test_reading_agrees_with_the_library() -> None:
    """Read by hand; the library, which the exercise is to be checked against, reads the same."""
    report = validate_citations(nb07.ANSWER, nb07.SOURCES)
    uncited = [i for i, sentence in enumerate(report.sentences, 1) if sentence in report.uncited]
    assert {
        "cited": [source.id for source in report.sources],
        "invalid": list(report.invalid_ids),
        "uncited": uncited,
    } == nb07.READING
    assert nb07.check_reading(nb07.READING) is None
    assert nb07.check_reading({"cited": ("S3", "S1", "S2"), "invalid": ["S5"], "uncited": [4, 3]}) is None


@pytest.mark.parametrize(
    ("key", "given", "hint"),
    [
        ("cited", ["S1", "S2", "S3", "S4"], "S4 is in code"),
        ("invalid", ["S4", "S5"], "S4 is in code"),
        ("cited", ["S1", "S3"], "both kinds"),
        ("uncited", [4], "third sentence"),
        ("uncited", [], "read the answer again"),
        ("invalid", ..., "nothing given for 'invalid'"),
    ],
)
def test_wrong_reading(key: str, given: Any, hint: str) -> None:
    attempt = copy.deepcopy(nb07.READING) | {key: given}
    assert hint in str(nb07.check_reading(attempt))


@pytest.mark.parametrize(
    "attempt", ["The workshop works 12 hours a week [S1].", "The workshop works forty hours a week (S1)."]
)
def test_blind_spot(attempt: str) -> None:
    assert nb07.check_blind_spot(attempt) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        ("The workshop works 12 hours a week.", "must cite S1"),
        ("The workshop works 12 hours a week [S1][S2].", "must cite S1"),
        ("The workshop works 30 hours a week [S1].", "objects to 30 hours"),
        ("The workshop works 36 hours a week [S1].", "is right"),
        ("The workshop is open [S1].", "no number of hours"),
        ("The workshop works 12 hours a week [S1]. It is open [S1].", "2 sentences"),
        ("", "0 sentences"),
    ],
)
def test_wrong_blind_spot(attempt: str, hint: str) -> None:
    assert hint in str(nb07.check_blind_spot(attempt))


def test_quote() -> None:
    # 7 and 5 words.
    quote = "Goods can be returned within 30 days … Opened software cannot be returned."
    assert nb07.check_quote(quote) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        ("30 days … cannot", "too short"),
        ("Goods can be returned within 30 days, but not opened software", "word for word"),
        ("Opened software cannot be returned … Goods can be returned within 30 days", "in its order"),
        ("Goods can be returned within 30 days", "the exception"),
        ("Opened software cannot be returned.", "the rule"),
        (nb07.RETURNS, "27 words; at most 12"),
    ],
)
def test_wrong_quote(attempt: str, hint: str) -> None:
    assert hint in str(nb07.check_quote(attempt))


def cheapest(scores: Sequence[float], answerable: Sequence[bool], cost: float) -> float:
    costs = {}
    for threshold in abstention.candidate_thresholds(scores):
        wrong = [
            (s < threshold) if known else cost * (s >= threshold) for s, known in zip(scores, answerable, strict=True)
        ]
        costs[threshold] = sum(wrong)
    return max(costs, key=lambda threshold: (-costs[threshold], threshold))


def test_threshold() -> None:
    # The candidates of the first two cases are 0.2, 0.3, 0.5, 0.65, 0.8 and just over 0.9. Their false refusals are
    # 0, 0, 1, 2, 2, 3, their false answers 2, 1, 1, 1, 0, 0. At a cost of 1 that is 2, 1, 2, 3, 2, 3: 0.3. At 5 it is
    # 10, 5, 6, 7, 2, 3: 0.8. In the third case 0.25 and 0.45 cost 1 each: the highest.
    assert nb07.check_threshold(cheapest) is None


def test_wrong_threshold() -> None:
    unweighted = nb07.check_threshold(
        lambda scores, answerable, cost: abstention.choose_threshold(scores, answerable)
    )
    assert "as choose_threshold does" in str(unweighted)
    assert "add up" in str(nb07.check_threshold(lambda scores, answerable, cost: 0.5))
    nothing: Any = lambda scores, answerable, cost: None  # noqa: E731
    assert "None" in str(nb07.check_threshold(nothing))
    lowest = nb07.check_threshold(
        lambda scores, answerable, cost: min(
            abstention.candidate_thresholds(scores),
            key=lambda t: cheapest(scores, answerable, cost) != t and (len(scores) < 5 and t != 0.25),
        )
    )
    assert lowest is not None
