"""Outcomes of answers, accepted answers, and how far two judges agree."""

import pytest

from rag_lab import metrics
from rag_lab.citations.faithfulness import Judgement
from rag_lab.evaluation.scoring import agreement, claimed, compare_judges, model_judge, outcome
from rag_lab.llm.spending import OverBudget
from rag_lab.llm.structured import InvalidJSON
from rag_lab.types import Question
from tests.support.answers import DAYS, NEGATIVE, POSITIVE, answer


def test_outcomes_go_by_the_status() -> None:
    assert outcome(answer("28 days [S1].", sources=[DAYS]), POSITIVE) == "correct"
    assert outcome(answer("28 days. Not in the sources: why", "partial", [DAYS]), POSITIVE) == "correct"
    assert outcome(answer("30 days [S1].", sources=[DAYS]), POSITIVE) == "wrong"
    assert outcome(answer("28 days", "refused"), POSITIVE) == "unanswered"  # whatever it says
    assert outcome(answer("I cannot say", "answered"), NEGATIVE) == "false_answer"
    assert outcome(answer("There is one.", "partial"), NEGATIVE) == "false_answer"
    assert outcome(answer("", "refused"), NEGATIVE) == "right_refusal"
    for question in (POSITIVE, NEGATIVE):
        assert outcome(answer("28 days", "error"), question) == "error"


def test_markers_are_no_claim() -> None:
    question = Question("q", "Which hall?", ("S1",), POSITIVE.gold)
    given_answer = answer("Hall seven [S1].", sources=[DAYS])
    assert outcome(given_answer, question) == "wrong"
    assert claimed(given_answer).split() == ["Hall", "seven", "."]


def test_answer_score_is_that_of_metrics() -> None:
    assert metrics.answer_score is metrics.answer_score


def test_a_model_as_judge() -> None:
    asked = []

    def check(claim: str, source: str) -> Judgement:
        asked.append((claim, source))
        return Judgement(reason="", verdict="supported" if "thirty" in claim else "contradicted")

    judge = model_judge(check)
    assert outcome(answer("thirty days", sources=[DAYS]), POSITIVE, judge) == "correct"
    assert "How many days?" in asked[0][1]
    assert "28 days" in asked[0][1]
    outcome(answer("", "refused"), POSITIVE, judge)
    outcome(answer("thirty", sources=[DAYS]), NEGATIVE, judge)
    assert len(asked) == 1  # refusals and negatives need no judge


def test_judges_compared() -> None:
    def judge(text: str, question: Question) -> bool:
        if "?" in text:
            raise InvalidJSON("none")
        return "right" in text

    texts = ["28 days right", "28 days right", "28 days", "30 days", "28 days?"]
    answers = [answer(text, sources=[DAYS]) for text in texts] + [answer("", "refused"), answer("right")]
    questions = [POSITIVE] * 6 + [NEGATIVE]
    found = compare_judges(answers, questions, judge)
    # The four pairs: yes yes, yes yes, yes no, no no. Chance: 3/4 * 2/4 + 1/4 * 2/4 = 1/2; kappa (3/4 - 1/2) / (1/2).
    assert found.failed == 1
    assert found.share is not None
    assert (found.share.value, found.share.n) == (0.75, 4)
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.5)
    assert found.kappa.low < 0.5 < found.kappa.high


def test_answers_without_questions_are_refused_before_a_judge_is_asked() -> None:
    def judge(text: str, question: Question) -> bool:
        raise AssertionError("nothing is to be paid for")

    with pytest.raises(ValueError, match="1 answers to 2 questions"):
        compare_judges([answer("28 days", sources=[DAYS])], [POSITIVE, POSITIVE], judge)


def test_money_and_bugs_are_no_failed_verdict() -> None:
    def judge(text: str, question: Question) -> bool:
        raise OverBudget("the cap")

    with pytest.raises(OverBudget):
        compare_judges([answer("28 days", sources=[DAYS])], [POSITIVE], judge)


def test_kappa_of_a_published_table() -> None:
    # 20 yes yes, 5 yes no, 10 no yes, 15 no no: agreement 0.7, chance 0.5, kappa 0.4 (the usual textbook example).
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    found = agreement(pairs)
    assert found.share is not None
    assert found.share.value == 0.7
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.4)
    assert agreement([(True, True)] * 5).kappa is None
    assert agreement([]).share is None
