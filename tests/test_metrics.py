"""Metrics against values worked out by hand, trec_eval's own, and the binomial distribution."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.metrics import (
    OUTCOMES,
    Interval,
    answer_score,
    answer_scores,
    bootstrap_ci,
    ndcg_at_k,
    paired_difference,
    recall_at_k,
    reciprocal_rank,
    span_recall,
    wilson_interval,
)
from rag_lab.types import Chunk, GoldSpan


def piece(start: int, end: int, doc_id: str = "doc") -> Chunk:
    return Chunk(doc_id, 0, "x" * (end - start), start, end)


def test_an_interval_is_formatted_scaled_and_read_from_a_row() -> None:
    interval = Interval.from_row({"name": "gain", "value": 0.08, "low": -0.006, "high": 0.164, "n": 116})
    assert f"{interval:+.3f}" == "+0.080 [-0.006, +0.164]"
    assert f"{interval.scaled(100):.1f}, n = {interval.n}" == "8.0 [-0.6, 16.4], n = 116"
    assert f"{interval}" == repr(interval)


def test_recall_counts_gold_among_the_first_k() -> None:
    ranking = ["a", "b", "c", "d"]
    assert recall_at_k(ranking, {"b", "d", "z"}, 1) == 0.0
    assert recall_at_k(ranking, {"b", "d", "z"}, 2) == pytest.approx(1 / 3)
    assert recall_at_k(ranking, {"b", "d", "z"}, 99) == pytest.approx(2 / 3)
    assert recall_at_k([], {"b"}, 5) == 0.0


def test_a_repeated_id_takes_one_place_only() -> None:
    # Without repeats the ranking is a, b, c: b is second, c third.
    ranking = ["a", "a", "a", "b", "b", "c"]
    assert recall_at_k(ranking, {"b"}, 2) == 1.0
    assert recall_at_k(ranking, {"c"}, 2) == 0.0
    assert reciprocal_rank(ranking, {"c"}) == pytest.approx(1 / 3)
    assert ndcg_at_k(ranking, {"b": 1}, 2) == pytest.approx(1 / math.log2(3))
    assert ndcg_at_k(["b", "b"], {"b": 1, "c": 1}, 2) == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_ndcg_of_pytrec_evals_published_example() -> None:
    # README of cvangysel/pytrec_eval: ndcg of q1 is 0.5, of q2 0.6934264036172708 (rankings by descending score).
    assert ndcg_at_k(["d3", "d1", "d2"], {"d1": 0, "d2": 1, "d3": 0}, 1000) == pytest.approx(0.5)
    assert ndcg_at_k(["d1", "d3", "d2"], {"d2": 1, "d3": 1}, 1000) == pytest.approx(0.6934264036172708)


@pytest.mark.parametrize(
    ("k", "expected"),
    # ndcg_cut.3, .5, .6, .10 of pytrec_eval-terrier 0.5.11. A gain of 2^grade - 1 would give 0.831 at k = 3.
    [(3, 0.901306029678045), (5, 0.76592286264237), (6, 0.785002371969948), (10, 0.7561640298168337)],
)
def test_graded_ndcg_as_trec_eval(k: int, expected: float) -> None:
    relevance = {"a": 3, "b": 2, "c": 3, "d": 0, "e": 1, "f": 2, "g": 3, "h": 2}
    assert ndcg_at_k(["a", "b", "c", "d", "e", "f", "unjudged"], relevance, k) == pytest.approx(expected, abs=1e-12)


def test_negative_grades_count_as_zero_as_in_trec_eval() -> None:
    # pytrec_eval-terrier 0.5.11, ndcg_cut.3 of b, c, a.
    assert ndcg_at_k(["b", "c", "a"], {"a": 1, "b": -1, "c": 2}, 3) == pytest.approx(0.66967181649423, abs=1e-12)


def test_reciprocal_rank_is_of_the_first_gold_id() -> None:
    assert reciprocal_rank(["a", "b", "c"], {"c", "b"}) == 0.5
    assert reciprocal_rank(["a"], {"b"}) == 0.0


def test_empty_gold_and_bad_k_are_refused() -> None:
    for refused in (
        lambda: recall_at_k(["a"], set(), 1),
        lambda: reciprocal_rank(["a"], set()),
        lambda: ndcg_at_k(["a"], {}, 1),
        lambda: ndcg_at_k(["a"], {"a": 0}, 1),
        lambda: span_recall([piece(0, 5)], []),
        lambda: span_recall([piece(0, 5)], [GoldSpan("doc", 3, 3)]),
    ):
        with pytest.raises(ValueError, match="not defined"):
            refused()
    with pytest.raises(ValueError, match="k is 0"):
        recall_at_k(["a"], {"a"}, 0)


def test_span_recall_by_hand() -> None:
    gold = [GoldSpan("doc", 10, 20)]
    assert span_recall([], gold) == 0.0
    assert span_recall([piece(0, 10), piece(20, 30)], gold) == 0.0  # touching is not covering
    assert span_recall([piece(0, 14)], gold) == pytest.approx(0.4)
    assert span_recall([piece(0, 14), piece(12, 16)], gold) == pytest.approx(0.6)  # 12 to 14 counted once
    assert span_recall([piece(0, 14), piece(19, 40)], gold) == pytest.approx(0.5)
    assert span_recall([piece(0, 100)], gold) == 1.0
    assert span_recall([piece(0, 100, "other")], gold) == 0.0


def test_span_recall_merges_overlapping_golds_and_adds_documents() -> None:
    # Gold: 0 to 15 of doc (two overlapping ranges) and 0 to 5 of other: 20 characters. Held: 5 to 15, that is 10.
    gold = [GoldSpan("doc", 0, 10), GoldSpan("doc", 5, 15), GoldSpan("other", 0, 5)]
    assert span_recall([piece(5, 15)], gold) == pytest.approx(0.5)


ranges = st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda r: (r[0], r[0] + r[1]))


@settings(max_examples=100, deadline=None)
@given(st.lists(ranges, min_size=1, max_size=5), st.lists(ranges, max_size=5))
def test_span_recall_equals_counting_characters(gold: list[tuple[int, int]], held: list[tuple[int, int]]) -> None:
    wanted = {i for start, end in gold for i in range(start, end)}
    covered = wanted & {i for start, end in held for i in range(start, end)}
    value = span_recall([piece(*r) for r in held], [GoldSpan("doc", *r) for r in gold])
    assert value == pytest.approx(len(covered) / len(wanted))


def test_bootstrap_of_a_coin_has_the_binomial_quantiles() -> None:
    # A resample of 50 ones and 50 zeros sums to Binomial(100, 1/2), whose 2.5% and 97.5% quantiles are 40 and 60, and
    # whose 5% and 95% quantiles are 42 and 58.
    values = [0.0, 1.0] * 50
    interval = bootstrap_ci(values)
    assert (interval.value, interval.n) == (0.5, 100)
    assert (interval.low, interval.high) == (pytest.approx(0.40, abs=0.005), pytest.approx(0.60, abs=0.005))
    narrower = bootstrap_ci(values, level=0.9)
    assert (narrower.low, narrower.high) == (pytest.approx(0.42, abs=0.005), pytest.approx(0.58, abs=0.005))


def test_bootstrap_repeats_with_its_seed_and_only_with_it() -> None:
    values = np.random.default_rng(5).normal(size=200)
    assert bootstrap_ci(values) == bootstrap_ci(values)
    assert bootstrap_ci(values) != bootstrap_ci(values, seed=1)


def test_bootstrap_in_several_pieces_draws_every_resample() -> None:
    # 300,000 values: 6 resamples at a time. The standard error of the mean is 1 / sqrt(300,000) = 0.0018.
    interval = bootstrap_ci(np.random.default_rng(0).normal(size=300_000), n_resamples=40)
    assert 0.003 < interval.high - interval.low < 0.012


def test_values_without_spread_have_a_point_for_an_interval() -> None:
    interval = bootstrap_ci([0.25] * 7)
    assert (interval.value, interval.low, interval.high, interval.n) == (0.25, 0.25, 0.25, 7)
    assert bootstrap_ci([3.0]).high == 3.0


def test_paired_difference_uses_the_pairing() -> None:
    # b is a minus 0.1 for every query: the difference has no spread, though a and b have much.
    a = np.linspace(0, 1, 50)
    interval = paired_difference(a, a - 0.1)
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.1, 0.1, 0.1))
    assert paired_difference(a - 0.1, a).value == pytest.approx(-0.1)


def test_what_cannot_be_averaged_is_refused() -> None:
    with pytest.raises(ValueError, match="2 of 3 values are NaN or infinite"):
        bootstrap_ci([math.nan, 1.0, math.inf])
    with pytest.raises(ValueError, match="NaN"):
        paired_difference([1.0, math.nan], [1.0, 1.0])
    with pytest.raises(ValueError, match="2 and 3"):
        paired_difference([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="non-empty"):
        bootstrap_ci([])
    with pytest.raises(ValueError, match="shape"):
        bootstrap_ci(np.zeros((2, 2)))
    for wrong in ({"level": 95}, {"n_resamples": 0}):
        with pytest.raises(ValueError, match="level"):
            bootstrap_ci([1.0], **wrong)


@pytest.mark.parametrize(
    "metric", [lambda gold: recall_at_k(["a"], gold, 1), lambda gold: reciprocal_rank(["a"], gold)]
)
def test_gold_that_is_one_string_is_refused(metric: Callable[[str], float]) -> None:
    """A string is a collection of its characters: "berlin" would never be found."""
    with pytest.raises(ValueError, match="'berlin'"):
        metric("berlin")


def test_answer_scores_of_every_outcome() -> None:
    assert [answer_score(o) for o in OUTCOMES if o != "error"] == [1, 0, 0, -1, 0]
    assert [answer_score(o, wrong_as_minus=True) for o in OUTCOMES if o != "error"] == [1, -1, 0, -1, 0]
    for no_score in ("error", "sort of"):
        with pytest.raises(ValueError, match="has no score"):
            answer_score(no_score)


def test_answer_scores_count_errors_apart() -> None:
    found = answer_scores(["correct", "correct", "wrong", "unanswered", "false_answer", "right_refusal", "error"])
    assert found.counts == {
        "correct": 2, "wrong": 1, "unanswered": 1, "false_answer": 1, "right_refusal": 1, "error": 1,
    }  # fmt: skip
    assert found.total == 1  # 1 + 1 + 0 + 0 - 1 + 0
    assert found.mean is not None
    assert (found.mean.value, found.mean.n) == (pytest.approx(1 / 6), 6)
    assert found.mean.low < 1 / 6 < found.mean.high
    assert found.method == "bootstrap"
    assert answer_scores(["correct", "wrong"], wrong_as_minus=True).total == 0
    assert answer_scores(["error"]).mean is None
    for bad in ([], ["right"]):
        with pytest.raises(ValueError, match="outcomes are"):
            answer_scores(bad)  # type: ignore[arg-type]


def test_equal_scores_do_not_make_a_certain_mean() -> None:
    # Wilson's upper bound for 0 of 10 is z2 / (10 + z2) with z2 = 1.959964 ** 2 = 3.841459: 0.277533.
    share = 0.277533
    right = answer_scores(["correct"] * 10).mean
    assert right is not None
    assert (right.value, right.high) == (1.0, 1.0)
    assert right.low == pytest.approx(1 - share, abs=1e-6)  # others could have scored 0
    harsh = answer_scores(["correct"] * 10, wrong_as_minus=True).mean
    assert harsh is not None
    assert harsh.low == pytest.approx(1 - 2 * share, abs=1e-6)
    refused = answer_scores(["right_refusal"] * 10).mean
    assert refused is not None
    assert refused.high == 0.0
    assert refused.low == pytest.approx(-share, abs=1e-6)
    both = answer_scores(["unanswered"] * 5 + ["right_refusal"] * 5)
    assert both.method == "wilson"
    assert both.mean is not None
    assert (both.mean.low, both.mean.high) == (pytest.approx(-share, abs=1e-6), pytest.approx(share, abs=1e-6))


def test_wilson_interval() -> None:
    # Worked out with z = 1.959964: (8 + 1.920729) / 13.841459 = 0.716740; half of it:
    # sqrt(3.841459 * (8 * 2 / 10 + 0.960365)) / 13.841459 = 0.226578.
    found = wilson_interval(8, 10)
    assert (found.value, found.n) == (0.8, 10)
    assert (found.low, found.high) == (pytest.approx(0.490162, abs=1e-5), pytest.approx(0.943318, abs=1e-5))
    assert wilson_interval(0, 3).low == 0.0
    assert wilson_interval(3, 3).high == 1.0
    for successes, n in ((1, 0), (4, 3), (-1, 3)):
        with pytest.raises(ValueError, match="not a share"):
            wilson_interval(successes, n)
