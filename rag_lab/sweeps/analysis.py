"""What the rows of a sweep show: the ranking, the keys that mattered, and the best on held-out questions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_lab.metrics import Interval, answer_score, answer_scores, bootstrap_ci, wilson_interval

Row = dict[str, Any]


class TooFewQuestions(ValueError):  # noqa: N818
    """Too few scored questions to split into two halves. The message can be shown to the reader."""


@dataclass(frozen=True)
class Effect:
    """The mean score of the configurations with this value minus that of the others, in points per question.

    ``configurations`` is how many have the value; ``difference`` has a 95% interval.
    """

    key: str
    value: Any
    configurations: int
    difference: Interval

    @property
    def found(self) -> bool:
        """Whether the interval excludes 0."""
        return not self.difference.low <= 0 <= self.difference.high


@dataclass(frozen=True)
class Best:
    """The configuration that was best on one half of the questions, and its mean score on each half.

    ``chosen`` is its score on the half that chose it; ``reported``, on the other half, is the number to quote.
    ``same`` has the numbers of the rows that do not differ from it on the reporting half: the 95% interval of the
    paired difference includes 0.
    """

    row: Row
    chosen: Interval
    reported: Interval
    same: tuple[int, ...]


def ranked(rows: Sequence[Row]) -> list[Row]:
    """The rows by mean score, best first; ties by number, and rows without a score last."""
    return sorted(rows, key=lambda row: (-row["mean"]["value"] if row["mean"] else np.inf, row["number"]))


def swept(rows: Sequence[Row]) -> list[str]:
    """The keys in which the configurations of the rows differ."""
    return [key for key in rows[0]["configuration"] if len({repr(row["configuration"][key]) for row in rows}) > 1]


def scores(rows: Sequence[Row]) -> np.ndarray:
    """Scores (rows, questions): +1, 0 or -1, and NaN for an error.

    Raises ValueError if there are no rows, or if they have different questions.
    """
    if not rows:
        raise ValueError("There are no rows: run the sweep first.")
    questions = list(rows[0]["outcomes"])
    if other := [row["number"] for row in rows if list(row["outcomes"]) != questions]:
        raise ValueError(
            f"Rows {rows[0]['number']} and {other[0]} have different questions: compare rows of one sweep."
        )
    found = [[np.nan if o == "error" else answer_score(o) for o in row["outcomes"].values()] for row in rows]
    return np.array(found, dtype=float)


def main_effects(rows: Sequence[Row]) -> list[Effect]:
    """For every swept value, the configurations with it against those with another value, in the order of the keys.

    The interval is over questions, paired: the mean of each question over one set minus that over the other. In a
    grid the sets differ in nothing else; in a zip they can differ in other keys too. A question is left out if every
    configuration of a set failed on it. Raises ValueError as ``scores`` does.
    """
    table = scores(rows)
    found = []
    for key in swept(rows):
        values = [row["configuration"][key] for row in rows]
        for value in dict.fromkeys(values):
            mask = np.array([v == value for v in values])
            if difference := _difference(_means(table[mask]), _means(table[~mask])):
                found.append(Effect(key, value, int(mask.sum()), difference))
    return found


def best_on_heldout(rows: Sequence[Row], seed: int = 0) -> Best:
    """Choose the best configuration on one half of the questions and report its score on the other.

    The score on the half that chose it is too high on average, since luck helped to choose it. A hash of ``seed`` and
    question id draws the halves; each has half of the questions with an answer and half of those without. Of equal
    configurations the first is chosen.

    Raises TooFewQuestions, a ValueError, if no configuration has a score on the choosing half, or the best none on
    the other; ValueError as ``scores`` does.
    """
    table = scores(rows)
    half = _half(rows[0], seed)
    means = _means(table[:, half].T)
    if np.isnan(means).all() or half.all():
        raise TooFewQuestions(
            "There are too few scored questions for one half to choose the best and the other to report it: ask two "
            "or more."
        )
    best = int(np.nanargmax(means))
    if np.isnan(table[best, ~half]).all():
        raise TooFewQuestions(
            f"Run {rows[best]['number']}, the best on one half, has no scored question on the other: ask more, or "
            "again."
        )
    same = []
    for i, row in enumerate(rows):
        difference = _difference(table[best, ~half], table[i, ~half])
        if i != best and difference and difference.low <= 0 <= difference.high:
            same.append(row["number"])
    outcomes = np.array(list(rows[best]["outcomes"].values()))
    chosen, reported = (answer_scores(outcomes[mask].tolist()).mean for mask in (half, ~half))
    assert chosen is not None  # both halves have a scored question
    assert reported is not None
    return Best(rows[best], chosen, reported, tuple(same))


def _half(row: Row, seed: int) -> np.ndarray:
    """Which questions (a mask) are in the choosing half."""
    ids, answerable = list(row["outcomes"]), set(row["answerable"])
    order = sorted(ids, key=lambda id_: hashlib.sha256(f"{seed} {id_}".encode()).digest())
    order.sort(key=lambda id_: id_ not in answerable)
    chosen = set(order[::2])
    return np.array([id_ in chosen for id_ in ids])


def _difference(one: np.ndarray, other: np.ndarray) -> Interval | None:
    """The mean paired difference of scores in [0, 1] or [-1, 0], with its 95% interval. NaN is left out.

    None if nothing is left. If all differences are equal (one question, say), a bootstrap interval would have no
    width. The interval then allows for the share of other differences, in [-1, 1], that the upper Wilson bound of 0
    in n allows, as in ``answer_scores``.
    """
    difference = one - other
    difference = difference[~np.isnan(difference)]
    if not difference.size:
        return None
    if np.ptp(difference) > 1e-9:  # not 0: means of equal scores may differ by rounding
        return bootstrap_ci(difference)
    value, others = float(difference.mean()), wilson_interval(0, difference.size).high
    return Interval(value, value - others * (value + 1), value + others * (1 - value), difference.size)


def _means(table: np.ndarray) -> np.ndarray:
    """Means of the columns without NaN; NaN for a column with nothing else."""
    counts = (~np.isnan(table)).sum(axis=0)
    return np.where(counts, np.nansum(table, axis=0) / np.maximum(counts, 1), np.nan)
