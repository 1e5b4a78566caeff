"""The checks of notebook 08's exercises. Each returns None if the attempt is right, else a hint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rag_lab.answering.trace import Answer, Trace
from rag_lab.citations.validation import validate_citations
from rag_lab.evaluation.diagnosis import diagnose
from rag_lab.exercises.hints import number_hint
from rag_lab.metrics import Outcome, answer_scores
from rag_lab.prompting.templates import assign_sources
from rag_lab.prompting.token_budget import Dropped
from rag_lab.sweeps.config import NOT_EXTRACTIVE, parse_sweep
from rag_lab.types import Chunk, GoldSpan, Hit, Question

# Exercise 1: whether the documents answer the question, the answer's status, and whether it is right; what each is.
_OUTCOMES: dict[Outcome, list[tuple[bool, str, bool]]] = {
    "correct": [(True, "answered", True), (True, "answered", True), (True, "partial", True)],
    "wrong": [(True, "answered", False)],
    "unanswered": [(True, "refused", False)],
    "error": [(True, "error", False)],
    "false_answer": [(False, "answered", False)],
    "right_refusal": [(False, "refused", False)],
}
REPLIES = tuple(reply for replies in _OUTCOMES.values() for reply in replies)

# Exercise 2: an invented page, and a question whose gold is its second sentence.
TEXTS = ("The kiosk opens at ten.", "The boat leaves at noon.", "Dogs travel free.")
KIOSK, BOAT, DOGS = (
    Chunk("page", i, text, start := " ".join(TEXTS).index(text), start + len(text)) for i, text in enumerate(TEXTS)
)
QUESTION = Question("boat", "When does the boat leave?", ("noon",), (GoldSpan("page", BOAT.start, BOAT.end),))


@dataclass(frozen=True)
class Case:
    """The chunks retrieved, those in the prompt (as S1, S2 …), and the answer's text."""

    retrieved: tuple[Chunk, ...]
    prompt: tuple[Chunk, ...]
    text: str

    def __str__(self) -> str:
        retrieved, prompt = (" | ".join(chunk.text for chunk in chunks) for chunks in (self.retrieved, self.prompt))
        return f"retrieved {retrieved}\n   in prompt {prompt}\n   written   {self.text}"


CASES: Mapping[str, Case] = {
    "A": Case((KIOSK, DOGS), (KIOSK, DOGS), "The boat leaves at ten [S1]."),
    "B": Case((KIOSK, BOAT, DOGS), (KIOSK, DOGS), "The boat leaves at ten [S1]."),
    "C": Case((KIOSK, BOAT), (KIOSK, BOAT), "The boat leaves at ten [S1]."),
    "D": Case((BOAT, DOGS), (BOAT, DOGS), "It leaves at noon [S2]."),
    "E": Case((BOAT, DOGS), (BOAT, DOGS), "It leaves at noon [S1]."),
}

# Exercise 3: the number of runs of the file to write, and of the indexes that they share.
RUNS, INDEXES = 8, 2


def check_scores(attempt: tuple[int, int, float]) -> str | None:
    """Of ``REPLIES``: the sum, the sum with wrong answers as −1, and the first divided by the scored replies."""
    outcomes = [outcome for outcome, replies in _OUTCOMES.items() for _ in replies]
    plain, strict = answer_scores(outcomes), answer_scores(outcomes, wrong_as_minus=True)
    assert plain.mean is not None
    if len(attempt) != 3:
        return "give three numbers: the sum, the sum with wrong answers as −1, the mean"
    total, minus, mean = attempt
    if total == plain.total + plain.counts["right_refusal"]:
        return "a negative that is rightly refused gets 0: only a right answer earns a point"
    if total == plain.total + plain.counts["false_answer"]:
        return "an answered negative takes a point away"
    if total != plain.total:
        return "+1 for each positive answered rightly (in part too), −1 for each negative answered, else 0"
    if minus != strict.total:
        return "as the sum, and one less for each positive that was answered wrongly"
    slips = {total / len(REPLIES): "an error is no answer and has no score: do not count it in the mean"}
    return number_hint(mean, plain.mean.value, slips, "divide the sum by the number of replies with a score")


def check_failure_modes(attempt: Mapping[str, str]) -> str | None:
    """The failure mode of each of ``CASES``, by letter."""
    for letter, case in CASES.items():
        sources = tuple(assign_sources(case.prompt))
        hits = tuple(Hit(chunk, 1.0, rank) for rank, chunk in enumerate(case.retrieved, 1))
        dropped = tuple(Dropped(chunk, "budget", "no room") for chunk in case.retrieved if chunk not in case.prompt)
        trace = Trace(QUESTION.text, hits, dropped, completion_text=case.text)
        answer = Answer(case.text, "answered", sources, validate_citations(case.text, sources), trace)
        given, found = attempt.get(letter, ""), diagnose(answer, QUESTION)
        if given != found.failure_mode:
            return f"{letter} is not {given!r}. {found.reason}"
    return None


def check_file(attempt: str) -> str | None:
    """A sweep file with ``RUNS`` runs on ``INDEXES`` indexes, in which every key can make a difference."""
    try:
        sweep = parse_sweep(attempt, "attempt")
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    runs = len(sweep.configurations)
    if runs != RUNS:
        return f"that is {runs} runs, not {RUNS}: in a grid, multiply the lengths of the lists"
    indexes = len({config.index for config in sweep.configurations})
    if indexes != INDEXES:
        return f"that makes {indexes} indexes, not {INDEXES}: chunking, context and encoder make one, k does not"
    idle = [key for key in sweep.swept if key.startswith(NOT_EXTRACTIVE) and key != "llm.model"]
    if idle and any(config.extractive for config in sweep.configurations):
        return f"{', '.join(idle)} makes no difference to a reader that only quotes"
    return None


def check_honest(attempt: Callable[[np.ndarray, np.ndarray], tuple[int, float]]) -> str | None:
    """``attempt(table, half)``: the row that is best on the columns in ``half``, and its mean on the other columns.

    ``table`` (configurations, questions) holds scores; ``half`` (questions,) is True for those that choose.
    """
    table = np.array([[1, 1, 0, -1, 0, 0], [0, 1, 0, 1, 1, 1], [1, 0, 1, 0, 1, -1]], dtype=float)
    half = np.array([True, True, True, False, False, False])
    for scores, chosen in ((table, half), (table[::-1], half), (table, ~half)):
        best = int(scores[:, chosen].mean(axis=1).argmax())
        found, mean = attempt(scores, chosen)
        if found == scores.mean(axis=1).argmax() != best:
            return "that row is best on all questions: choose on one half only"
        if found != best:
            return f"row {found} of\n{scores}\nis not the first best on the columns {np.flatnonzero(chosen)}"
        if not np.isclose(mean, scores[best, ~chosen].mean()):
            return "report its mean on the other half, the questions that did not choose it"
    return None
