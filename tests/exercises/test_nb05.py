"""Each check of notebook 05 accepts the right answer and gives a hint for likely wrong ones."""

import re
from typing import Any

import pytest

from rag_lab.exercises import nb05
from rag_lab.positions.key_value import KeyValueItem

# The accepted answer is "beatles" once normalised. It stands in "it was beatles", in "beatles", in "beatles" without
# the apostrophe, in "anyone but beatles" and in "beatlesque band"; not in the fourth's first line, nor in the names.
JUDGED = [True, True, True, False, False, True, True]


def test_judged() -> None:
    assert nb05.check_judged(JUDGED) is None


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        (0, "lower case"),
        (2, "punctuation"),
        (3, "first line"),
        (4, "other words"),
        (5, "nothing else"),
        (6, "letters"),
    ],
)
def test_wrong_judged(place: int, hint: str) -> None:
    attempt = [judged != (i == place) for i, judged in enumerate(JUDGED)]
    assert hint in str(nb05.check_judged(attempt))


def test_too_few_judged() -> None:
    assert "7 times" in str(nb05.check_judged([True]))


# Column means 1, 1/4, 1/4, 1/2: ends 3/4 less 1/4 are 1/2; first less last is 1/2.
def test_contrasts() -> None:
    assert nb05.check_contrasts({"ends_against_middle": 0.5, "first_against_last": 0.5}) is None


@pytest.mark.parametrize(
    ("ends", "sides", "hint"),
    [
        (-0.5, 0.5, "not the middle less the ends"),
        (0.5, -0.5, "the first less the last"),
        (1.0, 0.5, "not their sum"),
        (0.25, 0.5, "ends_against_middle is off"),
        (0.5, 0.0, "first_against_last is off"),
    ],
)
def test_wrong_contrasts(ends: float, sides: float, hint: str) -> None:
    attempt = {"ends_against_middle": ends, "first_against_last": sides}
    assert hint in str(nb05.check_contrasts(attempt))


def test_contrasts_by_other_names() -> None:
    assert "give a dict" in str(nb05.check_contrasts({"ends": 0.5}))


def source(answer: str, item: KeyValueItem, position: int) -> int | None:
    codes = [code for _, code in (*item.others[:position], item.pair, *item.others[position:])]
    return next((i for i, code in enumerate(codes) if code in re.findall(r"\d+", answer)), None)


def inside(answer: str, item: KeyValueItem, position: int) -> int | None:
    codes = [code for _, code in (*item.others[:position], item.pair, *item.others[position:])]
    return next((i for i, code in enumerate(codes) if code in answer), None)


def gold_first(answer: str, item: KeyValueItem, position: int) -> int | None:
    return source(answer, item, 0)


def test_source() -> None:
    assert nb05.check_source(source) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (inside, "whole numbers"),
        (gold_first, r"others\[:position\]"),
        (lambda *asked: next((i for i in [source(*asked)] if i is not None), -1), "return None"),
    ],
    ids=["inside", "gold first", "-1"],
)
def test_wrong_source(attempt: Any, hint: str) -> None:
    assert re.search(hint, str(nb05.check_source(attempt)))
