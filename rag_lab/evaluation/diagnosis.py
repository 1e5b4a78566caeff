"""Where each answer went wrong: in retrieval, in selection or in writing. As data, as advice and as a figure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from rag_lab.answering.trace import Answer
from rag_lab.evaluation.scoring import AnswerJudge, is_correct, outcome
from rag_lab.metrics import span_recall, wilson_interval
from rag_lab.plots import COLOURS, HATCHES
from rag_lab.types import Chunk, GoldSpan, Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FailureMode = Literal[
    "right",
    "rightly_refused",
    "retrieval_failed",
    "lost_in_selection",
    "writing_failed",
    "wrong_reason",
    "answered_anyway",
    "error",
]
FAILURE_MODES: tuple[FailureMode, ...] = get_args(FailureMode)

MIN_COVERAGE = 0.5  # of a gold range's characters for it to count as found: a chunk border may cut off its end

# What to work on, for each failure mode that is a failure.
ADVICE: dict[str, str] = {
    "retrieval_failed": "retrieval (chunking, context for chunks, the retriever, a larger k)",
    "lost_in_selection": "selection (the abstention threshold, compression, the token budget)",
    "writing_failed": "writing (the prompt, the order of sources, fewer of them, the model)",
    "wrong_reason": "citations (right answers that their citations do not support)",
    "answered_anyway": "refusal (the abstention threshold, and a prompt that says when to refuse)",
    "error": "errors (nothing is known about these answers until the questions are run again)",
}


@dataclass(frozen=True)
class Diagnosis:
    """What became of one question.

    ``detail``: for ``lost_in_selection`` the step (``threshold``, ``filter``, ``extract``, ``budget`` …); for
    ``writing_failed`` ``wrong``, ``ignored`` (wrong, and only other sources are cited), ``refused`` or ``uncited``
    (right, without a citation); else "". ``reason`` is one sentence.
    """

    question_id: str
    failure_mode: FailureMode
    detail: str
    reason: str


@dataclass(frozen=True)
class DiagnosisSummary:
    """The number of questions per failure mode and per ``"failure_mode: detail"``; ``next_step`` is a sentence."""

    counts: dict[FailureMode, int]
    details: dict[str, int]
    n: int
    next_step: str


def diagnose(answer: Answer, question: Question, judge: AnswerJudge = is_correct) -> Diagnosis:
    """Where ``answer`` went wrong, by where the question's gold ranges were lost.

    1. All gold ranges are needed. A range is found in chunks that cover at least ``MIN_COVERAGE`` of its characters.
    2. Retrieval failed if a range is not in ``trace.retrieved``; it was lost in selection if it is there but not in
       ``answer.sources``; else writing failed.
    3. A right answer has the wrong reason if it cites only sources without gold, or cites none while the gold is not
       in the prompt: another passage may say the same, but nobody has checked that.
    """
    what = outcome(answer, question, judge)

    def found(mode: FailureMode, reason: str, detail: str = "") -> Diagnosis:
        return Diagnosis(question.id, mode, detail, reason)

    if what == "error":
        return found("error", answer.reason)
    if what == "right_refusal":
        return found("rightly_refused", answer.reason or "Nothing answers it, and it was refused.")
    if what == "false_answer":
        return found("answered_anyway", "Nothing in the documents answers it, and it was answered.")
    in_prompt = not _missing([source.chunk for source in answer.sources], question.gold)
    cited = [source for source in answer.sources if source.id in answer.cited_ids]
    cites_gold = len(_missing([source.chunk for source in cited], question.gold)) < len(question.gold)
    ids = ", ".join(source.id for source in cited)
    if what == "correct":
        if cites_gold:
            return found("right", "The answer is right and cites a source that contains its gold.")
        if cited:
            return found("wrong_reason", f"The answer is right, but {ids} does not contain the gold.")
        if in_prompt:
            return found("writing_failed", "The answer is right, but cites no source.", "uncited")
        return found("wrong_reason", "The answer is right, though the gold was not in the prompt.")
    lost = _missing([hit.chunk for hit in answer.trace.retrieved], question.gold)
    if lost:
        return found(
            "retrieval_failed",
            f"{len(lost)} of {len(question.gold)} gold ranges are not in the {len(answer.trace.retrieved)} hits.",
        )
    if not in_prompt:
        step, reason = _lost_at(answer, question)
        return found("lost_in_selection", reason, step)
    if what == "unanswered":
        return found("writing_failed", "The gold was in the prompt, and the answer was refused.", "refused")
    if cited and not cites_gold:
        return found("writing_failed", f"The gold was in the prompt, but {ids} was cited.", "ignored")
    return found("writing_failed", "The gold was in the prompt, and the answer is wrong.", "wrong")


def summarise(diagnoses: Sequence[Diagnosis]) -> DiagnosisSummary:
    """The failure modes and details counted, and what to work on: the most frequent failure.

    Two are distinguishable if the interval of the first one's share of both is over a half. Raises ValueError if
    there are no diagnoses.
    """
    n = len(diagnoses)
    if not n:
        raise ValueError("There are no diagnoses to sum up: diagnose at least one answer.")
    counted = Counter(diagnosis.failure_mode for diagnosis in diagnoses)
    counts = {mode: counted[mode] for mode in FAILURE_MODES}
    details = Counter(f"{d.failure_mode}: {d.detail}" for d in diagnoses if d.detail)
    first, second = sorted((mode for mode in counts if mode in ADVICE), key=lambda mode: -counts[mode])[:2]
    next_step = f"Next hour: {ADVICE[first]}, {counts[first]} of {n} questions"
    if not counts[first]:
        next_step = f"None of the {n} questions failed: try harder ones."
    elif wilson_interval(counts[first], counts[first] + counts[second]).low > 0.5:
        next_step += "."
    else:
        rival = f"{second.replace('_', ' ')} ({counts[second]})"
        next_step += f"; but {rival} is not distinguishable from it with so few questions."
    return DiagnosisSummary(counts, dict(details.most_common()), n, next_step)


def _missing(chunks: Sequence[Chunk], gold: Iterable[GoldSpan]) -> list[GoldSpan]:
    return [span for span in gold if span_recall(chunks, [span]) < MIN_COVERAGE]


def _lost_at(answer: Answer, question: Question) -> tuple[str, str]:
    """The step that dropped the gold, and a sentence that says so."""
    missing = _missing([source.chunk for source in answer.sources], question.gold)
    for dropped in answer.trace.dropped:
        if span_recall([dropped.chunk], missing) > 0:
            return dropped.step, f"{dropped.chunk.id}, which contains gold, was dropped: {dropped.reason}"
    with_gold = [hit.chunk.id for hit in answer.trace.retrieved if span_recall([hit.chunk], missing) > 0]
    if cut := [source.id for source in answer.sources if source.chunk.id in with_gold]:
        return "extract", f"{cut[0]} is in the prompt without the sentences that contain the gold."
    return "selection", answer.reason or f"{with_gold[0]} was retrieved, but is not in the prompt."


def plot_diagnosis(axes: "Axes", summary: DiagnosisSummary) -> None:
    """A bar per failure mode: its share of all questions in percent with Wilson's 95% interval, count and details.

    Failures are hatched. The axis label says what to work on next.
    """
    rows = np.arange(len(FAILURE_MODES))
    for row, mode in zip(rows, FAILURE_MODES, strict=True):
        share = wilson_interval(summary.counts[mode], summary.n).scaled(100)
        failed, bounds = mode in ADVICE, [[share.value - share.low], [share.high - share.value]]
        axes.barh(row, share.value, color=COLOURS[failed], hatch=HATCHES[failed], edgecolor="white")
        axes.errorbar(share.value, row, xerr=bounds, color="#333333", capsize=3, elinewidth=1.2)
        named = {key.partition(": ")[2]: n for key, n in summary.details.items() if key.startswith(f"{mode}:")}
        count = str(summary.counts[mode])
        if named:
            count += f" ({', '.join(f'{detail} {n}' for detail, n in named.items())})"
        axes.annotate(count, (share.high, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
    labels: dict[str, str] = {"right": "right, and cited", "wrong_reason": "right, wrong reason"}
    axes.set_yticks(rows, [labels.get(mode, mode.replace("_", " ")) for mode in FAILURE_MODES])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"% of {summary.n} questions\n{summary.next_step}", wrap=True)
