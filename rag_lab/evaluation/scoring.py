"""The outcome of an answer to a question: correct, wrong, unanswered, false answer, right refusal, or error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_lab.answering.trace import Answer
from rag_lab.citations.faithfulness import Judgement
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.structured import InvalidJSON
from rag_lab.metrics import Interval, Outcome, wilson_interval
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

    The model gets the accepted answers as the source, and says whether it supports the answer. With every score by
    this judge, report its agreement with the deterministic judge (``compare_judges``). Raises what ``check`` raises:
    InvalidJSON if the model gives no verdict.
    """

    def judge(text: str, question: Question) -> bool:
        accepted = " Or: ".join(question.answers)
        source = f"The question: {question.text}\nThe right answer: {accepted}"
        return check(f"The answer to “{question.text}” is: {text}", source).verdict == "supported"

    return judge


@dataclass(frozen=True)
class Agreement:
    """How far two judges agree: the share of equal verdicts, and Cohen's kappa in [-1, 1], which corrects for chance.

    Both have 95% intervals. ``share`` is None if no answer was judged; ``kappa`` is also None if both judges gave one
    and the same verdict throughout, because it is undefined then. ``failed``: answers without a verdict.
    """

    share: Interval | None
    kappa: Interval | None
    failed: int


def compare_judges(answers: Sequence[Answer], questions: Sequence[Question], judge: AnswerJudge) -> Agreement:
    """Agreement of ``judge`` with the deterministic judge on the answered positives.

    ``answers[i]`` belongs to ``questions[i]``. InvalidJSON and CallFailed are counted as failed; everything else is
    raised. Raises ValueError if the lengths differ.
    """
    if len(answers) != len(questions):
        raise ValueError(f"There are {len(answers)} answers to {len(questions)} questions; give one per question.")
    verdicts: list[tuple[bool, bool]] = []
    failed = 0
    for answer, question in zip(answers, questions, strict=True):
        if answer.status not in ("answered", "partial") or not question.answerable:
            continue
        text = claimed(answer)
        try:
            verdicts.append((is_correct(text, question), judge(text, question)))
        except (InvalidJSON, CallFailed):
            failed += 1
    return agreement(verdicts, failed)


def agreement(verdicts: Sequence[tuple[bool, bool]], failed: int = 0) -> Agreement:
    """Agreement over pairs of verdicts, one pair per answer.

    The share has Wilson's interval. Kappa has the same interval corrected for chance agreement, which is taken as
    known (Cohen 1960, "A Coefficient of Agreement for Nominal Scales").
    """
    n = len(verdicts)
    if not n:
        return Agreement(None, None, failed)
    share = wilson_interval(sum(a == b for a, b in verdicts), n)
    yes_a, yes_b = (sum(pair[i] for pair in verdicts) / n for i in (0, 1))
    chance = yes_a * yes_b + (1 - yes_a) * (1 - yes_b)
    if chance == 1:
        return Agreement(share, None, failed)
    value, low, high = ((p - chance) / (1 - chance) for p in (share.value, share.low, share.high))
    return Agreement(share, Interval(value, max(low, -1.0), high, n), failed)
