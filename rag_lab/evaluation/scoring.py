"""The outcome of an answer to a question: correct, wrong, unanswered, false answer, right refusal, or error."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import regex

from rag_lab.answering.trace import Answer
from rag_lab.citations.faithfulness import Judgement, NoVerdict
from rag_lab.llm.claude import CallFailed
from rag_lab.metrics import Interval, Outcome, wilson_interval
from rag_lab.text.answer_matching import normalise
from rag_lab.text.numbers import find_numbers, unsupported_numbers
from rag_lab.text.scripts import UNSPACED
from rag_lab.types import Question

Judge = Callable[[str, Question], bool]

# Written for the marks inside a number and its minus, which SQuAD's normalisation would drop: 15 of 1.5, 5 of -5.
_MARK = "\ue000"
_OF_NUMBER = regex.compile(r"(?<=\d)[.,:/٫٬](?=\d)|(?<![^\s(\[])[-−](?=\d)")
_WORD = rf"[[\w{_MARK}]--[{UNSPACED}]]"


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether ``text`` holds one of the accepted ``answers``.

    Held is an answer whose words stand in the text in a row, both normalised as in SQuAD (Rajpurkar et al. 2016: no
    case, punctuation or articles); whole words, where SQuAD-style containment (Liu et al. 2023) also takes "no" in
    "know" and 28 in 1284. Numbers count by value: 28 days = twenty-eight days, 1,000 = ۱۰۰۰ (see
    ``unsupported_numbers``); what else the answer says must stand in the text. ValueError for no or blank answers,
    and for a bare string, whose letters would each be one. An answer of which normalisation leaves nothing (the
    grade "A", "+") counts as it is written, as whole words.
    """
    if isinstance(answers, str) or not answers or not all(map(str.strip, answers)):
        raise ValueError(f"the accepted answers are {answers!r}; give a list of one or more that are not blank.")
    whole = _normal(text)
    return any(
        (_stands_in(part, whole) if (part := _normal(answer)) else _stands_in(answer.strip(), text))
        or _same_numbers(answer, text, whole)
        for answer in answers
    )


def is_correct(text: str, question: Question) -> bool:
    """The deterministic judge: ``matches`` with the question's accepted answers."""
    return contains_answer(text, question.answers)


def outcome(answer: Answer, question: Question, judge: Judge = is_correct) -> Outcome:
    """What ``answer`` is worth. Whether it answers is told by its status alone, never by its wording.

    ``answered`` and ``partial`` answer. ``judge`` is asked about answered positives only, with the text without its
    citation markers.
    """
    if answer.status == "error":
        return "error"
    if answer.status == "refused":
        return "unanswered" if question.answerable else "right_refusal"
    if not question.answerable:
        return "false_answer"
    return "correct" if judge(claimed(answer), question) else "wrong"


def claimed(answer: Answer) -> str:
    """The answer's text without its citation markers, which are no words of its own."""
    pieces, last = [], 0
    for citation in answer.report.citations:
        pieces.append(answer.text[last : citation.start])
        last = citation.end
    return " ".join([*pieces, answer.text[last:]])


def model_judge(check: Callable[[str, str], Judgement]) -> Judge:
    """A judge that asks a model; ``check`` is ``EntailmentModel.judge`` or ``partial(faithfulness.judge, llm=llm)``.

    The model is given the accepted answers as the source and is asked whether it supports the answer. Report its
    agreement with the deterministic judge (``compare_judges``) beside every score made with it. Raises what
    ``check`` raises: NoVerdict where a language model gave no verdict.
    """

    def judge(text: str, question: Question) -> bool:
        accepted = " Or: ".join(question.answers)
        source = f"The question: {question.text}\nThe right answer: {accepted}"
        return check(f"The answer to “{question.text}” is: {text}", source).verdict == "supported"

    return judge


@dataclass(frozen=True)
class Agreement:
    """How far two judges agree: the share of equal verdicts, and Cohen's kappa, in [-1, 1], which takes off chance.

    Both with 95% intervals. ``kappa`` is None where both judges gave one and the same verdict throughout: then it is
    not defined. ``share`` is None where no answer was judged. ``failed``: answers on which the model gave no verdict.
    """

    share: Interval | None
    kappa: Interval | None
    failed: int


def compare_judges(answers: Sequence[Answer], questions: Sequence[Question], judge: Judge) -> Agreement:
    """``judge`` beside the deterministic judge over the answered positives; ``answers[i]`` is to ``questions[i]``.

    NoVerdict and CallFailed are counted, everything else is raised. ValueError for unequal lengths.
    """
    if len(answers) != len(questions):
        raise ValueError(f"There are {len(answers)} answers to {len(questions)} questions; give one to each.")
    verdicts: list[tuple[bool, bool]] = []
    failed = 0
    for answer, question in zip(answers, questions, strict=True):
        if answer.status not in ("answered", "partial") or not question.answerable:
            continue
        text = claimed(answer)
        try:
            verdicts.append((is_correct(text, question), judge(text, question)))
        except (NoVerdict, CallFailed):
            failed += 1
    return agreement(verdicts, failed)


def agreement(verdicts: Sequence[tuple[bool, bool]], failed: int = 0) -> Agreement:
    """Agreement over pairs of verdicts, one pair an answer.

    Wilson's interval for the share. Kappa's is that interval with chance agreement taken off, chance being taken as
    known, as in Cohen 1960 ("A Coefficient of Agreement for Nominal Scales").
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


def _normal(text: str) -> str:
    return normalise(_OF_NUMBER.sub(_MARK, unicodedata.normalize("NFKC", text)))


def _stands_in(part: str, whole: str) -> bool:
    """Whether ``part`` stands in ``whole`` as whole words; Hebrew ones may have their prefixes before them."""
    if not part:
        return False
    before, after = (rf"(?<!{_WORD})", rf"(?!{_WORD})")
    if regex.match(r"\p{Hebrew}", part):
        before += "[ובהכלמש]{0,2}"
    if regex.match(f"[{UNSPACED}]", part):
        before = ""
    if regex.match(f"[{UNSPACED}]", part[-1]):
        after = ""
    return regex.search(before + regex.escape(part) + after, whole, regex.V1) is not None


def _same_numbers(answer: str, text: str, whole: str) -> bool:
    """Whether the text holds all numbers of an answer, and the words between them."""
    numbers = [number for number in find_numbers(answer) if number.unit or not number.weak]
    if not numbers or unsupported_numbers(answer, text):
        return False
    words, last = [], 0
    for number in numbers:
        words.append(answer[last : number.start])
        last = number.end
    normal = filter(None, map(_normal, [*words, answer[last:]]))
    return all(_stands_in(part, whole) for part in normal)
