"""Answers under several conditions, the same questions under each; and the shape of a curve over positions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from rag_lab.metrics import Interval, bootstrap_ci, paired_difference

Measure = Literal["accuracy", "log_likelihood", "refused"]
Shape = Literal["U-shaped", "inverted U", "primacy", "recency", "flat"]

# Two contrasts decide about a shape. At 97.5% each they hold together at 95% (Bonferroni).
VERDICT_LEVEL = 0.975
# With fewer questions, all of them agree by chance more often than that leaves room for: 2 · 0.5ⁿ > 0.025.
FEWEST = 7


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """What a model answered to ``n`` questions under each condition.

    ``accuracy`` (0 or 1), ``refused`` (0 or 1) and ``log_likelihood`` of the gold answer (nats, summed over its
    tokens; None where a model gives none) are arrays (n, conditions), NaN where a call failed. ``errors`` holds the
    reasons by (question, condition). A question with an error anywhere is left out everywhere, so that all conditions
    have the same questions.
    """

    model: str
    task: str
    conditions: tuple[Any, ...]
    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    accuracy: np.ndarray
    refused: np.ndarray
    log_likelihood: np.ndarray | None
    errors: dict[tuple[str, Any], str]

    @property
    def complete(self) -> np.ndarray:
        """Which questions were answered under every condition, (n,) of bool."""
        return ~np.isnan(self.accuracy).any(axis=1)

    def values(self, measure: Measure = "accuracy") -> np.ndarray:
        """The measure for the complete questions, (complete, conditions).

        ValueError for another measure, where the model gives no likelihood, or where no question is complete.
        """
        if measure not in get_args(Measure):
            raise ValueError(f"There is no measure {measure!r}; there are: {', '.join(get_args(Measure))}.")
        array = getattr(self, measure)
        if array is None:
            raise ValueError(f"{self.model} gives no likelihood; measure its accuracy.")
        if not self.complete.any():
            if not self.errors:
                raise ValueError(f"{self.task}: no question was asked.")
            reason = next(iter(self.errors.values()))
            raise ValueError(f"No question was answered under every condition; the first error was: {reason}")
        return array[self.complete]

    def intervals(self, measure: Measure = "accuracy") -> list[Interval]:
        """Mean and 95% bootstrap interval under each condition."""
        return [bootstrap_ci(column) for column in self.values(measure).T]

    def difference(self, first: Any, second: Any, measure: Measure = "accuracy") -> Interval:
        """Mean of ``first`` less ``second``, two of the conditions, paired by question, with its 95% interval.

        ValueError for what is no condition.
        """
        if unknown := [one for one in (first, second) if one not in self.conditions]:
            raise ValueError(
                f"There is no condition {unknown[0]!r}; there are: {', '.join(map(str, self.conditions))}."
            )
        columns = self.values(measure)[:, [self.conditions.index(first), self.conditions.index(second)]]
        return paired_difference(columns[:, 0], columns[:, 1])

    def rows(self, label: str, measures: Sequence[Measure]) -> list[dict[str, Any]]:
        """One dict a measure and condition with value, low, high, n and the errors left out, for a results file."""
        return [
            {"task": self.task, "measure": measure, label: condition, "errors": len(self.errors)}
            | {f: round(getattr(interval, f), 5) for f in ("value", "low", "high", "n")}
            for measure in measures
            for condition, interval in zip(self.conditions, self.intervals(measure), strict=True)
        ]


@dataclass(frozen=True)
class CurveShape:
    """The shape of a curve by its contrasts, each with its interval (97.5%, so 95% for the two that decide), widened
    for few questions (see ``expanded``).

    ``ends_against_middle``: mean of first and last position less the mean of all between. ``first_against_last``:
    first less last. ``weaker_end_against_middle``: the end with the lower mean less the mean of all between.
    """

    shape: Shape
    ends_against_middle: Interval
    first_against_last: Interval
    weaker_end_against_middle: Interval

    def __str__(self) -> str:
        ends, sides = self.ends_against_middle, self.first_against_last
        return (
            f"{self.shape}: ends against middle {ends.value:+.3f} [{ends.low:+.3f}, {ends.high:+.3f}], "
            f"first against last {sides.value:+.3f} [{sides.low:+.3f}, {sides.high:+.3f}], n = {ends.n}"
        )


class PositionCurve(ConditionResults):
    """``Outcomes`` whose conditions are positions of the gold, from 0, in ascending order."""

    @property
    def positions(self) -> tuple[int, ...]:
        """The conditions."""
        return self.conditions

    def verdict(self, measure: Measure = "accuracy") -> CurveShape:
        """The curve's shape, as far as its contrasts tell it.

        Ends over the middle: ``U-shaped``, but where one end is better than the other and the weaker end not over the
        middle, ``primacy`` (the first) or ``recency`` (the last); so too where only first and last differ. Ends under
        the middle: ``inverted U``, or primacy or recency where the better end is not under it. No contrast that
        excludes zero, or fewer than seven questions: ``flat``, which says that none was found with so many questions.
        ValueError for fewer than three positions.
        """
        values = self.values(measure)
        if values.shape[1] < 3:
            raise ValueError(f"{values.shape[1]} positions have no middle: measure three or more.")
        middle = values[:, 1:-1].mean(axis=1)
        first, last = values[:, 0], values[:, -1]
        weaker, better = (first, last) if first.mean() <= last.mean() else (last, first)
        ends = _contrast((first + last) / 2, middle)
        sides = _contrast(first, last)
        weaker_against = _contrast(weaker, middle)
        shape: Shape = "flat"
        if _sign(sides):
            shape = "primacy" if _sign(sides) > 0 else "recency"
        if _sign(ends) > 0 and (not _sign(sides) or _sign(weaker_against) > 0):
            shape = "U-shaped"
        if _sign(ends) < 0 and (not _sign(sides) or _sign(_contrast(better, middle)) < 0):
            shape = "inverted U"
        return CurveShape(shape, ends, sides, weaker_against)


def shuffle_positions(curve: PositionCurve, seed: int = 0) -> PositionCurve:
    """The curve with each question's values shuffled over the positions: whatever positions do is gone.

    Its verdict must be flat, but for one seed in twenty or so, which is what 95% means.
    """
    chance = np.random.default_rng(seed)
    order = np.argsort(chance.random(curve.accuracy.shape), axis=1)

    def shuffled(array: np.ndarray) -> np.ndarray:
        return np.take_along_axis(array, order, axis=1)

    return replace(
        curve,
        task=f"{curve.task}, positions shuffled",
        answers=tuple(
            tuple(row[j] for j in places) for row, places in zip(curve.answers, order.tolist(), strict=True)
        ),
        accuracy=shuffled(curve.accuracy),
        refused=shuffled(curve.refused),
        log_likelihood=None if curve.log_likelihood is None else shuffled(curve.log_likelihood),
    )


def _contrast(a: np.ndarray, b: np.ndarray) -> Interval:
    return paired_difference(a, b, level=expanded(VERDICT_LEVEL, len(a)))


def expanded(level: float, n: int) -> float:
    """The level, over ``level``, at which a percentile bootstrap interval of ``n`` values covers about ``level``.

    Plain ones of few values are too narrow: by √((n − 1)/n), and since they have the normal distribution's tails
    instead of Student's (Hesterberg 2015, arXiv 1411.5279, "expanded percentile"). Student's quantile is that of
    Abramowitz & Stegun, 26.7.5. Under ``FEWEST`` values, which decide nothing, the level stays.
    """
    if n < FEWEST:
        return level
    z, v = NormalDist().inv_cdf((1 + level) / 2), n - 1
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    return 1 - 2 * NormalDist().cdf(-math.sqrt(n / v) * t)


def _sign(interval: Interval) -> int:
    """1 or -1 where the interval lies on one side of zero, else 0."""
    if interval.n < FEWEST:
        return 0
    return int(interval.low > 0) - int(interval.high < 0)
