"""Abstention worked out by hand: which questions are refused at which threshold, and which threshold is best."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.answering.abstention import (
    ThresholdPoint,
    candidate_thresholds,
    choose_threshold,
    refusal_reason,
    threshold_curve,
)
from rag_lab.types import Chunk, Hit

# With an answer: 0.9 0.7 0.4; without: 0.5 0.2.
SCORES = [0.9, 0.5, 0.7, 0.2, 0.4]
KNOWN = [True, False, True, False, True]


def test_the_curve_by_hand() -> None:
    assert threshold_curve(SCORES, KNOWN, [0.0, 0.4, 0.45, 0.6, 1.0]) == [
        ThresholdPoint(0.0, 0.0, 1.0),
        ThresholdPoint(0.4, 0.0, 0.5),  # at the threshold is answered
        ThresholdPoint(0.45, pytest.approx(1 / 3), 0.5),
        ThresholdPoint(0.6, pytest.approx(1 / 3), 0.0),
        ThresholdPoint(1.0, 1.0, 0.0),
    ]


def test_candidate_thresholds_split_the_scores_in_every_way() -> None:
    assert candidate_thresholds([0.5, 1.0, 0.5, -math.inf]) == [0.5, 0.75, math.nextafter(1.0, 2.0)]


def test_the_threshold_chosen_by_hand() -> None:
    # Wrong at 0.3: one (0.5 answered); at 0.6: one (0.4 refused). The higher of the two refuses more.
    assert choose_threshold(SCORES, KNOWN) == pytest.approx(0.6)
    # An answerable question with nothing found is refused at any threshold.
    assert choose_threshold([-math.inf, 0.8, 0.2], [True, True, False]) == pytest.approx(0.5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=12))
def test_no_threshold_is_better_than_the_one_chosen(pairs: list[tuple[int, bool]]) -> None:
    scores, known = [float(score) for score, _ in pairs], [label for _, label in pairs]
    if len(set(known)) < 2:
        with pytest.raises(ValueError, match="Both answerable and unanswerable"):
            choose_threshold(scores, known)
        return

    def wrong(threshold: float) -> int:
        return sum((score >= threshold) != label for score, label in pairs)

    assert wrong(choose_threshold(scores, known)) == min(wrong(t / 2) for t in range(-11, 13))
    for point in threshold_curve(scores, known):
        rates = {label: np.mean([s >= point.threshold for s, k in pairs if k == label]) for label in (True, False)}
        assert (point.false_refusal_rate, point.false_answer_rate) == pytest.approx((1 - rates[True], rates[False]))


@pytest.mark.parametrize(
    ("scores", "known", "message"),
    [
        ([0.1], [True, False], "1 scores and 2 labels"),
        ([0.1, 0.2], [True], "2 scores and 1 labels"),
        ([0.1, math.nan], [True, False], "1 of 2 scores are NaN"),
        ([-math.inf, -math.inf], [True, False], "None of the 2 scores is finite"),
    ],
)
def test_scores_that_no_threshold_can_be_chosen_from(scores: list[float], known: list[bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_threshold(scores, known)


def test_a_refusal_names_its_reason() -> None:
    hit = Hit(Chunk("a", 0, "Dogs.", 0, 5), 0.31, 1)
    assert refusal_reason([], None) == refusal_reason([], 0.4) == "no passage found"
    assert refusal_reason([hit], 0.42) == "no passage over the threshold 0.42 (best 0.31)"
    assert refusal_reason([hit], 0.31) == refusal_reason([hit], None) == ""
    with pytest.raises(ValueError, match="NaN"):  # not a refusal, which would count as a result
        refusal_reason([Hit(hit.chunk, math.nan, 1)], 0.1)
