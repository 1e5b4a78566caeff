"""Abstention: refuse a question whose score is under a threshold, before any model is called.

A question is answered if its score is at or over the threshold. Any score will do: that of the best passage by a
retriever or a reranker, or that of the best sentence by the extractive reader.
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
    """Why these hits should be refused: there are none, or the best score is under ``threshold``. "" if neither.

    Raises ValueError if the best score is NaN; refusing would count as a result.
    """
    if not hits:
        return NO_PASSAGE
    if threshold is None or hits[0].score >= threshold:
        return ""
    if np.isnan(hits[0].score):
        raise ValueError("The best passage's score is NaN, so no threshold can judge it: correct the retriever.")
    return f"no passage over the threshold {threshold:.4g} (best {hits[0].score:.4g})"


def threshold_curve(
    scores: Sequence[float], answerable: Sequence[bool], thresholds: Sequence[float] | None = None
) -> list[ThresholdPoint]:
    """False refusal rate and false answer rate at each of ``thresholds`` (default: ``candidate_thresholds``).

    ``scores[i]`` belongs to question i; it is minus infinity if nothing was found. Raises ValueError if the lengths
    differ, if a score is NaN, or if one kind of question is missing.
    """
    at, refusals, answers = _errors(scores, answerable, thresholds)
    rates = refusals / sum(answerable), answers / (len(scores) - sum(answerable))
    return [ThresholdPoint(*map(float, point)) for point in zip(at, *rates, strict=True)]


def candidate_thresholds(scores: Sequence[float]) -> list[float]:
    """One threshold for each way to split the scores, rising: the lowest, each midpoint, just over the highest.

    Scores of minus infinity are never answered, and are left out. Raises ValueError if no score is finite.
    """
    values = np.unique([score for score in scores if np.isfinite(score)])
    if not len(values):
        raise ValueError(f"None of the {len(scores)} scores is finite: there is no threshold to choose.")
    midpoints = (values[:-1] + values[1:]) / 2
    return [float(values[0]), *midpoints.tolist(), float(np.nextafter(values[-1], np.inf))]


def choose_threshold(scores: Sequence[float], answerable: Sequence[bool]) -> float:
    """The threshold with the fewest false refusals and false answers, each counted once per question.

    Of equally good thresholds it is the highest, which refuses more. Choose on one half of the questions and report
    on the other. Raises ValueError as ``threshold_curve`` does.
    """
    at, refusals, answers = _errors(scores, answerable)
    return at[::-1][int(np.argmin((refusals + answers)[::-1]))]


def _errors(
    scores: Sequence[float], answerable: Sequence[bool], thresholds: Sequence[float] | None = None
) -> tuple[Sequence[float], np.ndarray, np.ndarray]:
    """The thresholds, and at each the numbers of false refusals and of false answers."""
    if len(scores) != len(answerable):
        raise ValueError(f"There are {len(scores)} scores and {len(answerable)} labels; give one per question.")
    values, labels = np.asarray(scores, np.float64), np.asarray(answerable, bool)
    if missing := int(np.isnan(values).sum()):
        raise ValueError(f"{missing} of {len(scores)} scores are NaN: correct what computes them.")
    if labels.all() or not labels.any():
        raise ValueError("Both answerable and unanswerable questions are needed.")
    at = candidate_thresholds(scores) if thresholds is None else thresholds
    refusals, rejections = (np.searchsorted(np.sort(values[kind]), at) for kind in (labels, ~labels))
    return at, refusals, (~labels).sum() - rejections
