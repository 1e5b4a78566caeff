"""Retrieval metrics and answer scores, and 95% intervals for them."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from rag_lab.types import Chunk, GoldSpan

# Of a question that the documents answer (a positive): correct, wrong, unanswered. Of one that they do not (a
# negative): false_answer, right_refusal. Of either: error.
Outcome = Literal["correct", "wrong", "unanswered", "false_answer", "right_refusal", "error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_SCORES: dict[str, int] = {"correct": 1, "wrong": 0, "unanswered": 0, "false_answer": -1, "right_refusal": 0}


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` queries with the bounds of its interval, all in the unit of the values."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class AnswerScores:
    """Outcomes counted, and their scores: the sum, and the mean per question that did not fail.

    ``mean`` is None where every question failed. ``method`` says where its 95% interval comes from: ``bootstrap``,
    or ``wilson`` where all scores are equal.
    """

    counts: dict[Outcome, int]
    total: int
    mean: Interval | None
    method: Literal["bootstrap", "wilson", ""]


def recall_at_k(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Share of the gold ids among the first ``k`` distinct ids of the ranking, in [0, 1].

    ValueError for an empty gold set, gold that is one string, or k < 1.
    """
    if isinstance(gold, str):
        raise ValueError(f"gold is the string {gold!r}: give a set of ids, such as {{{gold!r}}}.")
    if not gold:
        raise ValueError("recall is not defined for an empty gold set; score such questions apart.")
    wanted = set(gold)
    return len(wanted.intersection(_top(ranking, k))) / len(wanted)


def ndcg_at_k(ranking: Sequence[str], relevance: Mapping[str, int], k: int) -> float:
    """Normalised discounted cumulative gain as trec_eval's ``ndcg_cut`` computes it, in [0, 1].

    Linear gain: the grade over log2(rank + 1), as in Järvelin & Kekäläinen 2002. A negative grade counts as 0, and
    the ideal ranking is made of every judged id. Each id counts once, where it stands first. ValueError where
    nothing is relevant or k < 1.
    """
    ideal = sorted((grade for grade in relevance.values() if grade > 0), reverse=True)
    if not ideal:
        raise ValueError("nDCG is not defined where no id has a relevance above 0; score such questions apart.")
    gains = [max(relevance.get(id_, 0), 0) for id_ in _top(ranking, k)]
    return _discounted(gains) / _discounted(ideal[:k])


def reciprocal_rank(ranking: Sequence[str], gold: Collection[str]) -> float:
    """One over the rank of the first gold id, counting each id once; 0.0 where none is ranked.

    ValueError for an empty gold set or gold that is one string.
    """
    if isinstance(gold, str):
        raise ValueError(f"gold is the string {gold!r}: give a set of ids, such as {{{gold!r}}}.")
    if not gold:
        raise ValueError("reciprocal rank is not defined for an empty gold set; score such questions apart.")
    wanted = set(gold)
    return next((1 / rank for rank, id_ in enumerate(dict.fromkeys(ranking), 1) if id_ in wanted), 0.0)


def span_recall(chunks: Sequence[Chunk], gold: Sequence[GoldSpan]) -> float:
    """Share of the gold characters that the chunks' ranges cover together, in [0, 1].

    Judging by characters compares chunkers that cut differently (Smith & Troynikov 2024, "Evaluating Chunking
    Strategies for Retrieval"). A character counts once, however many golds or chunks hold it. ValueError for an
    empty gold or for one without characters.
    """
    total = covered = 0
    for doc_id in {span.doc_id for span in gold}:
        wanted = _union((span.start, span.end) for span in gold if span.doc_id == doc_id)
        held = _union((chunk.start, chunk.end) for chunk in chunks if chunk.doc_id == doc_id)
        total += sum(end - start for start, end in wanted)
        covered += sum(
            max(0, min(end, held_end) - max(start, held_start))
            for start, end in wanted
            for held_start, held_end in held
        )
    if not total:
        raise ValueError("span recall is not defined for gold without characters; score such questions apart.")
    return covered / total


def bootstrap_ci(
    values: Sequence[float] | np.ndarray, n_resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Mean of ``values`` (one a query) with its percentile bootstrap interval (Efron & Tibshirani 1993, ch. 13).

    ValueError for no values, more than one dimension, NaN or infinity, ``level`` outside (0, 1), no resamples.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"values must be a non-empty list of numbers, one a query; their shape is {array.shape}.")
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise ValueError(f"{bad} of {array.size} values are NaN or infinite; count failed queries apart.")
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"level {level} must lie between 0 and 1, n_resamples {n_resamples} must be 1 or more.")
    rng = np.random.default_rng(seed)
    rows = max(1, 2_000_000 // array.size)  # resamples at once: at most 16 MB of indices, unless one row is larger
    means = np.concatenate(
        [
            array[rng.integers(array.size, size=(min(rows, n_resamples - done), array.size))].mean(axis=1)
            for done in range(0, n_resamples, rows)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(array.mean()), float(low), float(high), array.size)


def paired_difference(
    a: Sequence[float] | np.ndarray,
    b: Sequence[float] | np.ndarray,
    n_resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Mean of a − b with its bootstrap interval, the two paired by query: ``a[i]`` and ``b[i]`` are of query i.

    ValueError for unequal lengths, and as ``bootstrap_ci``.
    """
    if len(a) != len(b):
        raise ValueError(f"paired values need the same queries in the same order; there are {len(a)} and {len(b)}.")
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return bootstrap_ci(difference, n_resamples, level, seed)


def wilson_interval(successes: int, n: int, level: float = 0.95) -> Interval:
    """A share with its score interval (Wilson 1927), which has a width also where the share is 0 or 1.

    ValueError for n < 1 or successes outside 0 to n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is no share: n must be 1 or more, successes from 0 to n.")
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    centre = (successes + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    # Exactly 0 and 1 at the ends, where the formula is off by rounding.
    low, high = 0.0 if not successes else centre - half, 1.0 if successes == n else centre + half
    return Interval(successes / n, low, high, n)


def answer_score(outcome: str, wrong_as_minus: bool = False) -> int:
    """+1 for a positive answered, 0 for one not answered, -1 for a negative answered, 0 for a negative refused.

    A positive answered wrongly scores 0 and is counted apart; with ``wrong_as_minus`` it scores -1, as in CRAG (Yang
    et al. 2024, section 3). ValueError for "error", which has no score, and for what is no outcome.
    """
    if outcome not in _SCORES:
        raise ValueError(f"{outcome!r} has no score; {', '.join(_SCORES)} have. Count errors apart.")
    return -1 if wrong_as_minus and outcome == "wrong" else _SCORES[outcome]


def answer_scores(outcomes: Sequence[Outcome], wrong_as_minus: bool = False) -> AnswerScores:
    """Counts, sum and mean of ``answer_score`` over ``outcomes``, one a question, errors counted and left out.

    Where all scores are equal a bootstrap interval would have no width. Then the interval allows for as large a
    share of other scores as Wilson's bound for 0 of n allows, at the best and worst that these questions can score.
    ValueError for no outcomes or what is no outcome.
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


def _top(ranking: Sequence[str], k: int) -> list[str]:
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more.")
    return list(dict.fromkeys(ranking))[:k]


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _union(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges' union as disjoint ranges in order."""
    union: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union
