"""Where an answer went wrong, from answers whose traces are made by hand."""

import matplotlib
import pytest

from rag_lab.evaluation.diagnosis import (
    ADVICE,
    FAILURE_MODES,
    Diagnosis,
    FailureMode,
    diagnose,
    plot_diagnosis,
    summarise,
)
from rag_lab.plots import new_figure
from rag_lab.prompting.token_budget import Dropped
from rag_lab.types import GoldSpan, Question
from tests.support.answers import DAYS, DOGS, NEGATIVE, OPENS, PAGE, POSITIVE, answer, sentence

RIGHT, WRONG = "28 days", "30 days"


def found(*arguments: object, question: Question = POSITIVE, **keywords: object) -> tuple[str, str]:
    diagnosis = diagnose(answer(*arguments, **keywords), question)  # type: ignore[arg-type]
    assert diagnosis.question_id == question.id
    assert diagnosis.reason
    return diagnosis.failure_mode, diagnosis.detail


def test_right_needs_a_citation_of_the_gold() -> None:
    assert found(f"{RIGHT} [S2].", sources=[OPENS, DAYS]) == ("right", "")
    assert found(f"{RIGHT} [S1].", sources=[OPENS, DAYS]) == ("wrong_reason", "")
    assert found(f"{RIGHT} [S7].", sources=[OPENS, DAYS]) == ("writing_failed", "uncited")
    assert found(f"{RIGHT}.", sources=[OPENS, DAYS]) == ("writing_failed", "uncited")
    assert found(f"{RIGHT}.", sources=[OPENS]) == ("wrong_reason", "")


def test_wrong_answers_by_where_the_gold_was_lost() -> None:
    assert found(f"{WRONG} [S1].", sources=[OPENS]) == ("retrieval_failed", "")
    assert found("", "refused", sources=[OPENS]) == ("retrieval_failed", "")
    assert found(f"{WRONG} [S1].", sources=[DAYS, OPENS]) == ("writing_failed", "wrong")
    assert found(f"{WRONG}.", sources=[DAYS, OPENS]) == ("writing_failed", "wrong")
    assert found(f"{WRONG} [S2].", sources=[DAYS, OPENS]) == ("writing_failed", "ignored")
    assert found("", "refused", sources=[DAYS]) == ("writing_failed", "refused")


@pytest.mark.parametrize("step", ["threshold", "clean", "filter", "extract", "budget"])
def test_lost_in_selection_names_the_step(step: str) -> None:
    dropped = [Dropped(OPENS, "budget", "too long"), Dropped(DAYS, step, "the reason")]
    lost = diagnose(answer(WRONG, sources=[DOGS], retrieved=[DOGS, OPENS, DAYS], dropped=dropped), POSITIVE)
    assert (lost.failure_mode, lost.detail) == ("lost_in_selection", step)
    assert "page#0" in lost.reason
    assert "the reason" in lost.reason


def test_a_piece_without_the_gold_was_cut_by_extraction() -> None:
    whole = sentence("Staff have 28 days a year. The office opens at nine.", 0)
    rest = sentence("The office opens at nine.", 0)
    assert found(WRONG, sources=[rest], retrieved=[whole]) == ("lost_in_selection", "extract")
    other = sentence("Dogs are welcome.", 1)
    assert found(WRONG, sources=[other], retrieved=[whole, other]) == ("lost_in_selection", "selection")


def test_half_of_a_gold_range_is_held_and_less_is_not() -> None:
    half, less = (GoldSpan("page", 0, 2 * length) for length in (26, 27))  # DAYS has 26 characters
    for gold, failure_mode in ((half, "writing_failed"), (less, "retrieval_failed")):
        question = Question("q", "How many days?", ("28 days",), (gold,))
        assert found(WRONG, sources=[DAYS], question=question)[0] == failure_mode


def test_all_gold_ranges_are_needed() -> None:
    both = Question("q", "?", ("28 days",), (*POSITIVE.gold, GoldSpan("page", OPENS.start, OPENS.end)))
    assert found(WRONG, sources=[DAYS], question=both) == ("retrieval_failed", "")
    assert found(WRONG, sources=[DAYS, OPENS], question=both) == ("writing_failed", "wrong")
    assert found(f"{RIGHT} [S1].", sources=[DAYS, OPENS], question=both) == ("right", "")


def test_negatives_and_errors() -> None:
    assert found("There is one [S1].", sources=[DOGS], question=NEGATIVE) == ("answered_anyway", "")
    assert found("", "refused", sources=[DOGS], question=NEGATIVE) == ("rightly_refused", "")
    for question in (POSITIVE, NEGATIVE):
        assert found("", "error", reason="overloaded", question=question) == ("error", "")


def of(failure_mode: FailureMode, count: int, detail: str = "") -> list[Diagnosis]:
    return [Diagnosis(str(i), failure_mode, detail, "so") for i in range(count)]


def test_the_summary_says_what_to_work_on() -> None:
    summary = summarise(of("right", 50) + of("retrieval_failed", 12) + of("writing_failed", 2, "wrong"))
    assert summary.n == 64
    assert sum(summary.counts.values()) == 64
    assert set(summary.counts) == set(FAILURE_MODES)
    assert summary.details == {"writing_failed: wrong": 2}
    # Wilson's lower bound for 12 of 14 is 0.60.
    assert summary.next_step == f"Next hour: {ADVICE['retrieval_failed']}, 12 of 64 questions."
    close = summarise(of("retrieval_failed", 4) + of("writing_failed", 3, "wrong"))
    assert "writing failed (3) is not distinguishable" in close.next_step
    assert "None of the 3 questions failed" in summarise(of("right", 3)).next_step
    with pytest.raises(ValueError, match="no diagnoses"):
        summarise([])


def test_the_figure_shows_every_failure_mode_with_its_count() -> None:
    matplotlib.use("agg")
    figure, axes = new_figure()
    summary = summarise(
        of("right", 3) + of("lost_in_selection", 2, "threshold") + of("lost_in_selection", 1, "budget")
    )
    plot_diagnosis(axes, summary)
    figure.canvas.draw()
    assert len(axes.patches) == len(axes.get_yticklabels()) == len(FAILURE_MODES)
    assert [text.get_text() for text in axes.texts][:4] == ["3", "0", "0", "3 (threshold 2, budget 1)"]
    assert summary.next_step in axes.get_xlabel()


def test_the_page_is_what_the_chunks_are_cut_from() -> None:
    assert all(PAGE.text[chunk.start : chunk.end] == chunk.text for chunk in (DAYS, OPENS, DOGS))
