"""What a sweep's rows say: the ranking, which key mattered, and the winner with a number that is honest."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_lab.metrics import Interval, answer_score, answer_scores, bootstrap_ci, wilson_interval

Row = dict[str, Any]


class TooFewQuestions(ValueError):  # noqa: N818
    """There are no two halves with a scored question each; the message is a sentence for the reader."""


@dataclass(frozen=True)
class Effect:
    """Mean score of the configurations with this value less that of the others, with its 95% interval, in points a
    question; ``configurations`` have the value."""

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
    """The configuration that was best on one half of the questions (``chosen``), and what it does on the other.

    ``reported`` is the number to quote. ``same``: the numbers of the others whose difference from it on the
    reporting half has an interval with 0 in it, so that they are not told apart from it.
    """

    row: Row
    chosen: Interval
    reported: Interval
    same: tuple[int, ...]


def ranked(rows: Sequence[Row]) -> list[Row]:
    """The rows by mean score, best first; equal ones by number, and those without any score last."""
    return sorted(rows, key=lambda row: (-row["mean"]["value"] if row["mean"] else np.inf, row["number"]))


def swept(rows: Sequence[Row]) -> list[str]:
    """The keys in which the rows' configurations differ."""
    return [key for key in rows[0]["configuration"] if len({repr(row["configuration"][key]) for row in rows}) > 1]


def scores(rows: Sequence[Row]) -> np.ndarray:
    """Scores (rows, questions), each +1, 0 or -1; NaN for an error. ValueError for rows of different questions."""
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
    """For every swept value, the configurations with it against those with another, in the order of the keys.

    The interval is over questions (paired: each question's mean over the one set less that over the other). In a
    grid the sets differ in nothing else; in a zip they may differ in other keys too. Questions on which every
    configuration of a set failed are left out. Equal differences have an interval too: see ``_interval_of``.
    """
    table = scores(rows)
    found = []
    for key in swept(rows):
        values = [row["configuration"][key] for row in rows]
        for value in dict.fromkeys(values):
            mask = np.array([v == value for v in values])
            difference = _means(table[mask]) - _means(table[~mask])
            difference = difference[~np.isnan(difference)]
            if difference.size:
                found.append(Effect(key, value, int(mask.sum()), _interval_of(difference)))
    return found


def best_on_heldout(rows: Sequence[Row], seed: int = 0) -> Best:
    """Choose the best on one half of the questions and report it on the other, so that luck is not counted twice.

    The halves are drawn by a hash of seed and question id, each with half of the positives and of the negatives; of
    equal configurations the first is chosen. TooFewQuestions, a ValueError, where a half has no question that the
    best, or any configuration, has a score on.
    """
    table = scores(rows)
    first = _half(rows[0], seed)
    means = _means(table[:, first].T)
    if np.isnan(means).all() or first.all():
        raise TooFewQuestions(
            "There are too few scored questions for one half to choose the best and the other to report it: ask two "
            "or more."
        )
    best = int(np.nanargmax(means))
    other = table[:, ~first]
    same = []
    for i, row in enumerate(rows):
        difference = other[best] - other[i]
        difference = difference[~np.isnan(difference)]
        if i != best and difference.size and _touches_zero(difference):
            same.append(row["number"])
    return Best(rows[best], _interval(rows[best], first), _interval(rows[best], ~first), tuple(same))


def _touches_zero(difference: np.ndarray) -> bool:
    interval = _interval_of(difference)
    return interval.low <= 0 <= interval.high


def _interval_of(difference: np.ndarray) -> Interval:
    """Mean of paired differences, each in [-1, 1], with its 95% interval.

    Where all are equal, as that of one question is, a bootstrap interval would have no width. Then it allows for as
    large a share of other differences as Wilson's bound for 0 of n allows, as ``answer_scores`` does.
    """
    if np.ptp(difference) > 1e-9:  # not 0: means of equal scores may differ by rounding
        return bootstrap_ci(difference)
    value, others = float(difference.mean()), wilson_interval(0, difference.size).high
    return Interval(value, value - others * (value + 1), value + others * (1 - value), difference.size)


def _means(table: np.ndarray) -> np.ndarray:
    """Means of the columns over what is not NaN; NaN for a column with nothing else."""
    counts = (~np.isnan(table)).sum(axis=0)
    return np.where(counts, np.nansum(table, axis=0) / np.maximum(counts, 1), np.nan)


def _half(row: Row, seed: int) -> np.ndarray:
    """Which questions are in the first half."""
    ids = list(row["outcomes"])
    answerable = set(row["answerable"])
    order = sorted(ids, key=lambda id_: hashlib.sha256(f"{seed} {id_}".encode()).digest())
    order = [id_ for id_ in order if id_ in answerable] + [id_ for id_ in order if id_ not in answerable]
    chosen = set(order[::2])
    return np.array([id_ in chosen for id_ in ids])


def _interval(row: Row, half: np.ndarray) -> Interval:
    outcomes = [outcome for outcome, inside in zip(row["outcomes"].values(), half, strict=True) if inside]
    mean = answer_scores(outcomes).mean if outcomes else None
    if mean is None:
        raise TooFewQuestions(
            f"Run {row['number']}, the best on one half, has no scored question on the other: ask more, or again."
        )
    return mean
