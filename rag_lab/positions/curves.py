"""How well a model uses a passage, by its position in the prompt (Liu et al. 2023, arXiv 2307.03172)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, Protocol

import numpy as np

from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.prompt import Prompt
from rag_lab.metrics import Interval, paired_difference
from rag_lab.positions.conditions import ConditionResults, Measure, PromptSet, run_conditions
from rag_lab.storage import Store

Shape = Literal["U-shaped", "inverted U", "primacy", "recency", "flat"]

# Two contrasts decide about a shape. At 97.5% each they hold together at 95% (Bonferroni).
SHAPE_LEVEL = 0.975
# With fewer questions, all of them agree by chance more often than that leaves room for: 2 · 0.5ⁿ > 0.025.
FEWEST = 7


class Task(Protocol):
    """What position curves are measured on: ``size`` positions for the gold, answers of at most ``max_tokens``."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    def items(self, n: int, seed: int = 0) -> Sequence[Any]: ...
    def prompt(self, item: Any, position: int) -> Prompt: ...
    def gold(self, item: Any) -> str: ...
    def accepted(self, item: Any) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class CurveShape:
    """The shape of a curve and its contrasts. Two decide, each with a 97.5% interval: together they hold at 95%.

    ``ends_against_middle``: mean of the first and last position − mean of all between. ``first_against_last``: first
    − last. ``weaker_end_against_middle``: the end with the lower mean − mean of all between. Intervals of few
    questions are widened (see ``expanded``).
    """

    shape: Shape
    ends_against_middle: Interval
    first_against_last: Interval
    weaker_end_against_middle: Interval

    def __str__(self) -> str:
        ends, sides = self.ends_against_middle, self.first_against_last
        return f"{self.shape}: ends against middle {ends:+.3f}, first against last {sides:+.3f}, n = {ends.n}"


class PositionCurve(ConditionResults):
    """``ConditionResults`` whose conditions are positions of the gold, from 0, in ascending order."""

    @property
    def positions(self) -> tuple[int, ...]:
        """The conditions."""
        return self.conditions

    def classify(self, measure: Measure = "accuracy") -> CurveShape:
        """The curve's shape, as far as its contrasts show one.

        ``U-shaped``: the ends are above the middle (``inverted U``: below) and, if they differ, so is each of them.
        Else ``primacy`` if the first is better than the last, ``recency`` if it is worse. Else, and with fewer than
        seven questions, ``flat``: none was found with this many. Raises ValueError for fewer than three positions.
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
        nearer = weaker_against if _sign(ends) > 0 else _contrast(better, middle)
        shape: Shape = "primacy" if _sign(sides) > 0 else "recency" if _sign(sides) else "flat"
        if _sign(ends) and (not _sign(sides) or _sign(nearer) == _sign(ends)):
            shape = "U-shaped" if _sign(ends) > 0 else "inverted U"
        return CurveShape(shape, ends, sides, weaker_against)


def position_curve(
    llm: LanguageModel, task: Task, positions: Sequence[int], n: int, seed: int = 0, store: Store | None = None
) -> PositionCurve:
    """Answer the task's ``n`` questions (the same for the same ``seed``) with the gold at each of ``positions``.

    A LocalLLM gives the likelihood of the gold answer too; with ``store`` its answers are kept as they come, and a
    second run generates only what is missing. The calls of a ClaudeLLM are estimated, capped and recorded; one that
    fails is an error of the curve. Accuracy is best-subspan exact match of the answer's first line
    (``answer_matching``). Raises ValueError if the task does not have the positions.
    """
    positions = tuple(sorted(set(positions)))
    if not positions or positions[0] < 0 or positions[-1] >= task.size:
        raise ValueError(f"positions {list(positions)} are not in 0 to {task.size - 1}, which {task.name} has.")
    prompt_sets = [
        PromptSet(item.id, tuple(task.prompt(item, p) for p in positions), task.gold(item), task.accepted(item))
        for item in task.items(n, seed)
    ]
    found = run_conditions(llm, task.name, positions, prompt_sets, task.max_tokens, store)
    return PositionCurve(**vars(found))


def shuffle_positions(curve: PositionCurve, seed: int = 0) -> PositionCurve:
    """A permutation control: each question's values shuffled over the positions, so that no effect of them is left.

    Its shape must be flat, except for about one seed in twenty, which is what 95% means.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random(curve.accuracy.shape), axis=1)
    arrays = {name: getattr(curve, name) for name in ("accuracy", "refused", "log_likelihood")}
    shuffled: dict[str, Any] = {
        name: None if array is None else np.take_along_axis(array, order, axis=1) for name, array in arrays.items()
    }
    answers = tuple(tuple(row[j] for j in places) for row, places in zip(curve.answers, order, strict=True))
    return replace(curve, task=f"{curve.task}, positions shuffled", answers=answers, **shuffled)


def _contrast(a: np.ndarray, b: np.ndarray) -> Interval:
    return paired_difference(a, b, level=expanded(SHAPE_LEVEL, len(a)))


def expanded(level: float, n: int) -> float:
    """The level, above ``level``, at which a percentile bootstrap interval of ``n`` values covers about ``level``.

    Plain intervals of few values are too narrow: by √((n − 1)/n), and because they have the tails of the normal
    distribution instead of Student's (Hesterberg 2015, arXiv 1411.5279, "expanded percentile"). Student's quantile is
    that of Abramowitz & Stegun, 26.7.5. Below ``FEWEST`` values, which decide nothing, the level stays.
    """
    if n < FEWEST:
        return level
    z, v = NormalDist().inv_cdf((1 + level) / 2), n - 1
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    return 1 - 2 * NormalDist().cdf(-math.sqrt(n / v) * t)


def _sign(interval: Interval) -> int:
    """1 or -1 if the interval lies on one side of zero, else 0."""
    return 0 if interval.n < FEWEST else int(interval.low > 0) - int(interval.high < 0)
