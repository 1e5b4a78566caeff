"""The outcome of an answer to a question: correct, wrong, unanswered, false answer, right refusal, or error."""

from collections.abc import Callable

from rag_lab.answering.trace import Answer
from rag_lab.citations.faithfulness import Judgement
from rag_lab.metrics import Outcome
from rag_lab.text.answer_matching import contains_answer
from rag_lab.types import Question

AnswerJudge = Callable[[str, Question], bool]


def is_correct(text: str, question: Question) -> bool:
    """The deterministic judge: ``contains_answer`` with the question's accepted answers."""
    return contains_answer(text, question.answers)


def outcome(answer: Answer, question: Question, judge: AnswerJudge = is_correct) -> Outcome:
    """Whether ``answer`` is correct, wrong, unanswered, a false answer, a right refusal or an error.

    Only its status tells whether it answers: ``answered`` and ``partial`` do, whatever the wording. ``judge`` is
    called for answered positives only, with the text without its citation markers.
    """
    if answer.status == "error":
        return "error"
    if answer.status == "refused":
        return "unanswered" if question.answerable else "right_refusal"
    if not question.answerable:
        return "false_answer"
    return "correct" if judge(claimed(answer), question) else "wrong"


def claimed(answer: Answer) -> str:
    """The answer's text without its citation markers."""
    pieces, last = [], 0
    for citation in answer.report.citations:
        pieces.append(answer.text[last : citation.start])
        last = citation.end
    return " ".join([*pieces, answer.text[last:]])


def model_judge(check: Callable[[str, str], Judgement]) -> AnswerJudge:
    """A judge that is a language model; ``check`` is ``partial(faithfulness.judge, llm=llm)``.

    The model gets the accepted answers as the source, and says whether it supports the answer. Read a sample of
    its verdicts before you trust a score. Raises what ``check`` raises: InvalidJSON if the model gives no verdict.
    """

    def judge(text: str, question: Question) -> bool:
        accepted = " Or: ".join(question.answers)
        source = f"The question: {question.text}\nThe right answer: {accepted}"
        return check(f"The answer to “{question.text}” is: {text}", source).verdict == "supported"

    return judge
