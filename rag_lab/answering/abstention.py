"""Refusing before any model is called: the gate on a score, its curve, and the choice of its threshold.

A question is answered where its score is at or over the threshold, else refused. The score may be any: the best
passage's by a retriever or a reranker, the best sentence's by the extractive reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_lab.types import Hit

NO_PASSAGE = "no passage found"


@dataclass(frozen=True)
class ThresholdPoint:
    """At ``threshold``: the share of answerable questions refused, and of unanswerable ones answered, in [0, 1]."""

    threshold: float
    false_refusal_rate: float
    false_answer_rate: float


def refusal_reason(hits: Sequence[Hit], threshold: float | None) -> str:
    """Why these hits are not worth a call: none at all, or the best under ``threshold``; "" where they are.

    ValueError for a best score that is NaN: that is no reason to refuse, which would be scored.
    """
    if not hits:
        return NO_PASSAGE
    if threshold is not None and np.isnan(hits[0].score):
        raise ValueError("The best passage's score is NaN, so no threshold can judge it: mend the retriever.")
    if threshold is not None and hits[0].score < threshold:
        return f"no passage over the threshold {threshold:.4g} (best {hits[0].score:.4g})"
    return ""


def threshold_curve(
    scores: Sequence[float], answerable: Sequence[bool], thresholds: Sequence[float] | None = None
) -> list[ThresholdPoint]:
    """False refusals against false answers at each of ``thresholds`` (default: ``candidates`` of the scores).

    ``scores[i]`` is of question i, minus infinity where nothing was found. ValueError for unequal lengths, NaN, or
    where one kind of question is missing.
    """
    found, none = _by_kind(scores, answerable)
    at = candidate_thresholds(scores) if thresholds is None else list(thresholds)
    refused = np.searchsorted(found, at, side="left") / len(found)
    answered = 1 - np.searchsorted(none, at, side="left") / len(none)
    return [ThresholdPoint(*map(float, point)) for point in zip(at, refused, answered, strict=True)]


def candidate_thresholds(scores: Sequence[float]) -> list[float]:
    """One threshold for each way to part the scores, rising: the lowest, the middles between two, just over the last.

    Scores of minus infinity are never answered, and are left out. ValueError where no score is finite.
    """
    values = np.unique([score for score in scores if np.isfinite(score)])
    if not len(values):
        raise ValueError(f"None of the {len(scores)} scores is finite: there is no threshold to choose.")
    middles = (values[:-1] + values[1:]) / 2
    return [float(values[0]), *middles.tolist(), float(np.nextafter(values[-1], np.inf))]


def choose_threshold(scores: Sequence[float], answerable: Sequence[bool]) -> float:
    """The threshold with the fewest false refusals and false answers: the highest mean of ``scores_at_threshold``.

    Both count the same, question by question. Of equal thresholds the highest: it refuses rather. Choose on one
    half of the questions and report on the other. ValueError as ``threshold_curve``.
    """
    found, none = _by_kind(scores, answerable)
    at = candidate_thresholds(scores)
    wrong = np.searchsorted(found, at, side="left") + len(none) - np.searchsorted(none, at, side="left")
    return at[len(at) - 1 - int(np.argmin(wrong[::-1]))]


def scores_at_threshold(scores: Sequence[float], answerable: Sequence[bool], threshold: float) -> list[int]:
    """For each question: +1 answerable and answered, -1 unanswerable and answered, 0 refused.

    ValueError for unequal lengths, and for a score or threshold that is NaN.
    """
    _check(scores, answerable)
    if np.isnan(threshold):
        raise ValueError("The threshold is NaN, so that everything would be refused: give a number.")
    return [
        (1 if known else -1) if score >= threshold else 0 for score, known in zip(scores, answerable, strict=True)
    ]


def _by_kind(scores: Sequence[float], answerable: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """The scores of the answerable and of the unanswerable questions, each sorted."""
    _check(scores, answerable)
    values, labels = np.asarray(scores, np.float64), np.asarray(answerable, bool)
    if labels.all() or not labels.any():
        raise ValueError("Both answerable and unanswerable questions are needed.")
    return np.sort(values[labels]), np.sort(values[~labels])


def _check(scores: Sequence[float], answerable: Sequence[bool]) -> None:
    if len(scores) != len(answerable):
        raise ValueError(f"There are {len(scores)} scores and {len(answerable)} labels; give one for each question.")
    if missing := int(np.isnan(np.asarray(scores, np.float64)).sum()):
        raise ValueError(f"{missing} of {len(scores)} scores are NaN.")
