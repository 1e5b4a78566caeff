"""Checks of notebook 05's exercises. Each returns None for a right answer, else a hint."""

import math
from collections.abc import Callable, Mapping, Sequence

from rag_lab.positions.key_value import KeyValueItem
from rag_lab.text.answer_matching import best_subspan_em

# Exercise 1: "Who recorded Abbey Road?" Answers written by hand.
ACCEPTED = ("The Beatles",)
ANSWERS = (
    "It was the BEATLES!",
    "Beatles",
    "The Beatle's",
    "I think that it was\nthe Beatles",
    "John, Paul, George and Ringo",
    "Anyone but the Beatles.",
    "A Beatlesque band",
)

# Exercise 2: four questions (rows), right (1) or wrong (0) with the gold at four positions. Hand-written.
TABLE = ((1, 0, 0, 1), (1, 1, 0, 0), (1, 0, 0, 1), (1, 0, 1, 0))

# Exercise 3: pairs as a KeyValueTask makes them, where one code is the beginning of a longer number. Hand-written.
_ITEM = KeyValueItem("exercise", ("Oslo", "4711"), (("Lima", "1234"), ("Rome", "9876"), ("Kyoto", "5555")))
SOURCES: tuple[tuple[str, int, int | None], ...] = (
    ("The access code for the Oslo office is 4711.", 2, 2),
    ("The access code for the Oslo office is 1234.", 2, 0),
    ("The access code for the Oslo office is 9876.", 0, 2),
    ("The access code for the Oslo office is 5555.", 2, 3),
    ("The access code for the Oslo office is 5555.", 3, 2),
    ("The access code for the Oslo office is 2222.", 2, None),
    ("The access code for the Oslo office is 12345.", 2, None),
)


def check_judged(attempt: Sequence[bool]) -> str | None:
    """Which of ``ANSWERS`` best-subspan exact match takes for right."""
    right = [bool(best_subspan_em(answer, ACCEPTED)) for answer in ANSWERS]
    if len(attempt) != len(right):
        return f"give {len(right)} times True or False, one an answer"
    for answer, given, judged in zip(ANSWERS, attempt, right, strict=True):
        if bool(given) != judged:
            return f"{answer!r} is judged otherwise: {_why(answer)}"
    return None


def _why(answer: str) -> str:
    if "\n" in answer:
        return "only the first line counts"
    if "Anyone" in answer or "Beatlesque" in answer:
        return "the accepted letters stand in the answer, and the measure reads nothing else"
    if "John" in answer:
        return "a right answer in other words than the accepted ones is not recognised"
    return "both are made lower case, lose punctuation and articles, and then one must stand in the other"


def check_contrasts(attempt: Mapping[str, float]) -> str | None:
    """The two contrasts of ``TABLE``: ``ends_against_middle`` and ``first_against_last``."""
    means = [sum(column) / len(TABLE) for column in zip(*TABLE, strict=True)]
    first, last, middle = means[0], means[-1], sum(means[1:-1]) / len(means[1:-1])
    right = {"ends_against_middle": (first + last) / 2 - middle, "first_against_last": first - last}
    if set(attempt) != set(right):
        return f"give a dict with {' and '.join(right)}"
    ends, sides = (attempt[name] for name in right)
    if math.isclose(ends, -right["ends_against_middle"], abs_tol=0.005) and ends:
        return "the ends less the middle, not the middle less the ends"
    if math.isclose(sides, -right["first_against_last"], abs_tol=0.005) and sides:
        return "the first less the last"
    if math.isclose(ends, first + last - 2 * middle, abs_tol=0.005):
        return "the mean of the two ends, not their sum"
    for name, value in right.items():
        if not math.isclose(attempt[name], value, abs_tol=0.005):
            return f"{name} is off: take each column's mean first; all positions but two are the middle"
    return None


def check_source(attempt: Callable[[str, KeyValueItem, int], int | None]) -> str | None:
    """``attempt(answer, item, position)``: the place of the record whose code stands in the answer, or None."""
    for answer, position, right in SOURCES:
        given = attempt(answer, _ITEM, position)
        if given == right:
            continue
        if "12345" in answer:
            return "1234 is not a code in 12345: compare whole numbers"
        if right is None:
            return f"{answer!r} holds no record's code: return None, and you returned {given!r}"
        where = f"the record asked for at {position} and {answer!r}, the code stands at {right}, not {given!r}"
        return f"with {where}: the records are others[:position], pair, others[position:]"
    return None
