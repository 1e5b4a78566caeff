"""Retrieval metrics and answer scores, and 95% intervals for them."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from rag_lab.types import Chunk, GoldSpan

# A question that the documents answer (a positive): correct, wrong or unanswered. A question that they do not answer
# (a negative): false_answer or right_refusal. Either kind: error.
Outcome = Literal["correct", "wrong", "unanswered", "false_answer", "right_refusal", "error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_SCORES: dict[str, int] = {"correct": 1, "wrong": 0, "unanswered": 0, "false_answer": -1, "right_refusal": 0}


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` queries with the bounds of its interval, all in the unit of the values.

    ``f"{interval:+.3f}"`` gives ``+0.080 [-0.006, +0.164]``.
    """

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Interval":
        """The interval in a recorded row's fields ``value``, ``low``, ``high`` and ``n``."""
        return cls(row["value"], row["low"], row["high"], row["n"])

    def scaled(self, factor: float) -> "Interval":
        """The interval in another unit: ``scaled(100)`` is in percent. ``factor`` must be positive."""
        return Interval(factor * self.value, factor * self.low, factor * self.high, self.n)

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]" if spec else str(self)


@dataclass(frozen=True)
class AnswerScores:
    """Counts of each outcome, the sum of the scores, and their mean over the questions that did not fail.

    ``mean`` is None if every question failed. ``method`` says how its 95% interval was computed: ``bootstrap``, or
    ``wilson`` if all scores are equal.
    """

    counts: dict[Outcome, int]
    total: int
    mean: Interval | None
    method: Literal["bootstrap", "wilson", ""]


def recall_at_k(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Share of the gold ids that are among the first ``k`` distinct ids of the ranking, in [0, 1].

    Raises ValueError if ``gold`` is empty or a string, or if k < 1.
    """
    wanted = _gold_ids(gold, "recall")
    return len(wanted.intersection(_top(ranking, k))) / len(wanted)


def ndcg_at_k(ranking: Sequence[str], relevance: Mapping[str, int], k: int) -> float:
    """Normalised discounted cumulative gain as trec_eval's ``ndcg_cut`` computes it, in [0, 1].

    The gain is linear: the grade divided by log2(rank + 1), as in Järvelin & Kekäläinen 2002. Negative grades count
    as 0. The ideal ranking contains every judged id. A repeated id counts only at its first place. Raises ValueError
    if nothing is relevant or k < 1.
    """
    ideal = sorted((grade for grade in relevance.values() if grade > 0), reverse=True)
    if not ideal:
        raise ValueError("nDCG is not defined if no id has a relevance above 0; leave such questions out.")
    gains = [max(relevance.get(id_, 0), 0) for id_ in _top(ranking, k)]
    return _discounted(gains) / _discounted(ideal[:k])


def reciprocal_rank(ranking: Sequence[str], gold: Collection[str]) -> float:
    """One divided by the rank of the first gold id; 0.0 if none is ranked. Repeated ids count once.

    Raises ValueError if ``gold`` is empty or a string.
    """
    wanted = _gold_ids(gold, "reciprocal rank")
    return next((1 / rank for rank, id_ in enumerate(dict.fromkeys(ranking), 1) if id_ in wanted), 0.0)


def span_recall(chunks: Sequence[Chunk], gold: Sequence[GoldSpan]) -> float:
    """Share of the gold characters that the chunks cover together, in [0, 1].

    Counting characters makes chunkers comparable that cut in different places (Smith & Troynikov 2024, "Evaluating
    Chunking Strategies for Retrieval"). Each character counts once, even if several gold spans or chunks contain it.
    Raises ValueError if the gold has no characters.
    """
    total = covered = 0
    for doc_id in {span.doc_id for span in gold}:
        wanted = [(span.start, span.end) for span in gold if span.doc_id == doc_id]
        found = [(chunk.start, chunk.end) for chunk in chunks if chunk.doc_id == doc_id]
        total += _union_length(wanted)
        covered += _union_length(wanted) + _union_length(found) - _union_length(wanted + found)
    if not total:
        raise ValueError("span recall is not defined for gold without characters; leave such questions out.")
    return covered / total


def bootstrap_ci(
    values: Sequence[float] | np.ndarray, n_resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Mean of ``values`` (one per query) with its percentile bootstrap interval (Efron & Tibshirani 1993, ch. 13).

    Raises ValueError if ``values`` is empty, has more than one dimension, or contains NaN or infinity, if ``level``
    is not between 0 and 1, or if ``n_resamples`` < 1.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"values must be a non-empty list of numbers, one per query; their shape is {array.shape}.")
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise ValueError(f"{bad} of {array.size} values are NaN or infinite; count failed queries separately.")
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"level is {level}, n_resamples {n_resamples}; use 0 < level < 1 and n_resamples >= 1.")
    rng = np.random.default_rng(seed)
    rows = max(1, 2_000_000 // array.size)  # resamples per batch: at most 16 MB of indices, unless one is larger
    sizes = [min(rows, n_resamples - done) for done in range(0, n_resamples, rows)]
    means = np.concatenate([array[rng.integers(array.size, size=(n, array.size))].mean(axis=1) for n in sizes])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(array.mean()), float(low), float(high), array.size)


def paired_difference(
    a: Sequence[float] | np.ndarray,
    b: Sequence[float] | np.ndarray,
    n_resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Mean of a − b with its bootstrap interval, paired by query: ``a[i]`` and ``b[i]`` belong to query i.

    Raises ValueError if the lengths differ, and whenever ``bootstrap_ci`` does.
    """
    if len(a) != len(b):
        raise ValueError(f"paired values need the same queries in the same order; there are {len(a)} and {len(b)}.")
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return bootstrap_ci(difference, n_resamples, level, seed)


def wilson_interval(successes: int, n: int, level: float = 0.95) -> Interval:
    """A share with its score interval (Wilson 1927), which has a width even if the share is 0 or 1.

    Raises ValueError if n < 1 or ``successes`` is not between 0 and n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is not a share: n must be 1 or more, successes from 0 to n.")
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    centre = (successes + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    # Exactly 0 and 1 at the ends; the formula has rounding errors there.
    low, high = 0.0 if not successes else centre - half, 1.0 if successes == n else centre + half
    return Interval(successes / n, low, high, n)


def answer_score(outcome: str, wrong_as_minus: bool = False) -> int:
    """+1 for a correct answer, -1 for a false answer (to a question that has none), 0 for the other outcomes.

    With ``wrong_as_minus`` a wrong answer scores -1, as in CRAG (Yang et al. 2024, section 3). Raises ValueError for
    "error", which has no score, and for an unknown outcome.
    """
    if outcome not in _SCORES:
        raise ValueError(f"{outcome!r} has no score; these have: {', '.join(_SCORES)}. Count errors separately.")
    return -1 if wrong_as_minus and outcome == "wrong" else _SCORES[outcome]


def answer_scores(outcomes: Sequence[Outcome], wrong_as_minus: bool = False) -> AnswerScores:
    """Counts, sum and mean of ``answer_score`` over ``outcomes``, one per question. Errors are counted, not scored.

    If all scores are equal, a bootstrap interval would have no width. Then Wilson's upper bound for 0 of n says what
    share of questions may score differently, and the interval assumes the best and the worst score for that share.
    Raises ValueError if there are no outcomes or an unknown one.
    """
    if not outcomes or not set(outcomes) <= set(OUTCOMES):
        raise ValueError(f"outcomes are {list(outcomes)[:5]}; give one or more of {', '.join(OUTCOMES)}.")
    counted = Counter(outcomes)
    counts = {outcome: counted[outcome] for outcome in OUTCOMES}
    scores = [answer_score(outcome, wrong_as_minus) for outcome in outcomes if outcome != "error"]
    if not scores:
        return AnswerScores(counts, 0, None, "")
    if len(set(scores)) > 1:
        return AnswerScores(counts, sum(scores), bootstrap_ci(scores), "bootstrap")
    positives = any(counts[outcome] for outcome in ("correct", "wrong", "unanswered"))
    negatives = any(counts[outcome] for outcome in ("false_answer", "right_refusal"))
    best, worst = int(positives), -int(negatives or wrong_as_minus)
    others = wilson_interval(0, len(scores)).high
    value = float(scores[0])
    mean = Interval(value, value - others * (value - worst), value + others * (best - value), len(scores))
    return AnswerScores(counts, sum(scores), mean, "wilson")


def _gold_ids(gold: Collection[str], metric: str) -> set[str]:
    if isinstance(gold, str):
        raise ValueError(f"gold is the string {gold!r}: give a set of ids, such as {{{gold!r}}}.")
    if not gold:
        raise ValueError(f"{metric} is not defined for an empty gold set; leave such questions out.")
    return set(gold)


def _top(ranking: Sequence[str], k: int) -> list[str]:
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more.")
    return list(dict.fromkeys(ranking))[:k]


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _union_length(ranges: Iterable[tuple[int, int]]) -> int:
    """How many positions lie in at least one of the ranges."""
    length = reached = 0
    for start, end in sorted(ranges):
        length += max(0, end - max(start, reached))
        reached = max(reached, end)
    return length
