"""The checks of notebook 05's exercises. Each returns None if the attempt is right, else a hint."""

from collections.abc import Callable, Mapping, Sequence

from rag_lab.exercises.hints import number_hint
from rag_lab.positions.key_value import KeyValueItem
from rag_lab.text.answer_matching import best_subspan_em

# Exercise 1: hand-written answers to "Who recorded Abbey Road?", and what decides how the measure judges each.
ACCEPTED = ("The Beatles",)
_NORMALISED = "both are made lower case, lose punctuation and articles, and then one must be part of the other"
_ANY_MENTION = "the accepted letters are in the answer, and the measure reads nothing else"
_WHY_JUDGED = {
    "It was the BEATLES!": _NORMALISED,
    "Beatles": _NORMALISED,
    "The Beatle's": _NORMALISED,
    "I think that it was\nthe Beatles": "only the first line counts",
    "John, Paul, George and Ringo": "a right answer in other words than the accepted ones is not recognised",
    "Anyone but the Beatles.": _ANY_MENTION,
    "A Beatlesque band": _ANY_MENTION,
}
ANSWERS = tuple(_WHY_JUDGED)

# Exercise 2: four questions (rows), right (1) or wrong (0) with the gold at four positions. Hand-written.
TABLE = ((1, 0, 0, 1), (1, 1, 0, 0), (1, 0, 0, 1), (1, 0, 1, 0))

# Exercise 3: pairs as a KeyValueTask makes them; answers with the position of the pair and of the code in the answer.
# In the last answer a code is the beginning of a longer number. Hand-written.
_ITEM = KeyValueItem("exercise", ("Oslo", "4711"), (("Lima", "1234"), ("Rome", "9876"), ("Kyoto", "5555")))
_PLACES = (("4711", 2, 2), ("1234", 2, 0), ("9876", 0, 2), ("5555", 2, 3), ("5555", 3, 2), ("2222", 2, None))
SOURCES = [
    (f"The access code for the Oslo office is {code}.", position, right)
    for code, position, right in (*_PLACES, ("12345", 2, None))
]


def check_judged(attempt: Sequence[bool]) -> str | None:
    """Which of ``ANSWERS`` count as right by best-subspan exact match."""
    if len(attempt) != len(ANSWERS):
        return f"give {len(ANSWERS)} times True or False, one per answer"
    for answer, given in zip(ANSWERS, attempt, strict=True):
        if bool(given) != bool(best_subspan_em(answer, ACCEPTED)):
            return f"{answer!r} is judged otherwise: {_WHY_JUDGED[answer]}"
    return None


def check_contrasts(attempt: Mapping[str, float]) -> str | None:
    """The two contrasts of ``TABLE``: ``ends_against_middle`` and ``first_against_last``."""
    first, *inner, last = [sum(column) / len(TABLE) for column in zip(*TABLE, strict=True)]
    middle = sum(inner) / len(inner)
    right = {"ends_against_middle": (first + last) / 2 - middle, "first_against_last": first - last}
    if set(attempt) != set(right):
        return f"give a dict with {' and '.join(right)}"
    slips: dict[str, dict[float, str]] = {
        "ends_against_middle": {
            -right["ends_against_middle"]: "the ends less the middle, not the middle less the ends",
            first + last - 2 * middle: "the mean of the two ends, not their sum",
        },
        "first_against_last": {-right["first_against_last"]: "the first less the last"},
    }
    for name, value in right.items():
        otherwise = f"{name} is off: take each column's mean first; all positions but two are the middle"
        if hint := number_hint(attempt[name], value, slips[name], otherwise, rel=0, abs_=0.005):
            return hint
    return None


def check_source(attempt: Callable[[str, KeyValueItem, int], int | None]) -> str | None:
    """``attempt(answer, item, position)``: the place of the record whose code is in the answer, or None."""
    for answer, position, right in SOURCES:
        given = attempt(answer, _ITEM, position)
        if given == right:
            continue
        if "12345" in answer:
            return "1234 is not a code in 12345: compare whole numbers"
        if right is None:
            return f"{answer!r} holds no record's code: return None, and you returned {given!r}"
        where = f"the requested record at {position} and {answer!r}, the code is at {right}, not at {given!r}"
        return f"with {where}: the records are others[:position], pair, others[position:]"
    return None
