"""Outcomes of answers, accepted answers, and how far two judges agree."""

from rag_lab.citations.faithfulness import Judgement
from rag_lab.evaluation.scoring import claimed, model_judge, outcome
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
