"""The checks of notebook 07's exercises. Each returns None if the attempt is right, else a hint."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_lab.answering import abstention
from rag_lab.citations.quotes import ground_quote, too_short
from rag_lab.citations.validation import check_numbers, validate_citations
from rag_lab.prompting.templates import assign_sources
from rag_lab.text.numbers import find_numbers
from rag_lab.types import Chunk


def _sources(*texts: str) -> list[Any]:
    return assign_sources([Chunk("exercise", i, text, 0, len(text)) for i, text in enumerate(texts)])


# Exercise 1: a hand-written answer to three sources, and what a person reads in it.
SOURCES = _sources("The library opens at nine.", "Books are lent for four weeks.", "A lost card costs five euros.")
ANSWER = (
    "The library opens at nine [S1]. Books are lent for four weeks (S2), and a card costs five euros [S2, S3]. "
    "Films are lent for a week [S5]. Staff are friendly. The code `shelf[S4]` opens the drawer [S1]."
)
READING = {"cited": ["S1", "S2", "S3"], "invalid": ["S5"], "uncited": [3, 4]}

# Exercise 2: three numbers, one of them of hours.
WORKSHOP = "The workshop works 36 hours a week. It has 12 parking spaces and 40 lockers."

# Exercise 3: a rule, a sentence, and the rule's exception.
RETURNS = (
    "Goods can be returned within 30 days. The receipt has to be shown at the desk, on paper or on a telephone. "
    "Opened software cannot be returned."
)
MOST_WORDS = 12

# Exercise 4: scores, which questions are answerable, the cost of a false answer, and the best threshold by hand:
# halfway between the two scores that it separates.
THRESHOLDS = [
    ([0.9, 0.6, 0.4, 0.7, 0.2], [True, True, True, False, False], 1, 0.3),
    ([0.9, 0.6, 0.4, 0.7, 0.2], [True, True, True, False, False], 5, 0.8),
    ([0.5, 0.3, 0.4, 0.2], [True, True, False, False], 1, 0.45),
]


def check_reading(attempt: Mapping[str, Any]) -> str | None:
    """``READING``: the ids cited, the ids that no source has, and the sentences without a source."""
    for key, right in READING.items():
        given = attempt.get(key, ...)
        if given is ...:
            return f"nothing given for {key!r}"
        if sorted(given) == right:
            continue
        if "S4" in given:
            return f"{key}: S4 is in code, an index and no citation"
        if key == "uncited" and sorted(given) == [4]:
            return "uncited: does an id that no source has give the third sentence a source?"
        return f"{key}: read the answer again, brackets of both kinds"
    return None


def check_blind_spot(attempt: str) -> str | None:
    """A sentence that cites S1, gives a wrong number of hours for ``WORKSHOP``, and passes all checks."""
    report = validate_citations(attempt, _sources(WORKSHOP))
    if len(report.sentences) != 1:
        return f"it has {len(report.sentences)} sentences: write one"
    if report.invalid_ids or report.uncited:
        return "it must cite S1, in brackets, and nothing else"
    if flagged := [number.text for _, numbers in check_numbers(report) for number in numbers]:
        return f"the check of numbers objects to {', '.join(flagged)}: which other numbers does the source hold?"
    right = {value for number in find_numbers(WORKSHOP) if number.unit == "hour" for value in number.values}
    hours = [number for number in find_numbers(report.sentences[0].claim) if number.unit == "hour"]
    if not hours:
        return "it gives no number of hours: “… N hours …”"
    if any(number.values & right for number in hours):
        return "that number of hours is right: give a wrong one"
    return None


def check_quote(attempt: str) -> str | None:
    """A quote of at most ``MOST_WORDS`` words that proves the rule of ``RETURNS`` and its exception."""
    if too_short(attempt):
        return "too short to prove anything: each part around an ellipsis needs words"
    if ground_quote(attempt, RETURNS) is None:
        return "that is not in the passage: word for word, in its order, with … for what is left out"
    if "30 days" not in attempt or "cannot" not in attempt:
        return "a reader of your quote must see the rule (how long?) and the exception (what not?)"
    count = sum(any(map(str.isalnum, word)) for word in attempt.split())
    return f"{count} words; at most {MOST_WORDS}" if count > MOST_WORDS else None


def check_threshold(attempt: Callable[[Sequence[float], Sequence[bool], float], float]) -> str | None:
    """``attempt(scores, answerable, cost)`` returns the threshold of each of ``THRESHOLDS``."""
    for scores, answerable, cost, right in THRESHOLDS:
        given = attempt(list(scores), list(answerable), cost)
        if not isinstance(given, int | float):
            return f"it returned {given!r}: return one of abstention.candidate_thresholds(scores)"
        if not math.isclose(given, right):
            case = f"for scores {scores}, answerable {answerable} and cost {cost} it returned {given:.3g}"
            if math.isclose(given, abstention.choose_threshold(scores, answerable)):
                return f"{case}, as choose_threshold does: count each false answer {cost} times"
            return f"{case}: at each candidate, add up false refusals and cost times false answers; highest of equals"
    return None
