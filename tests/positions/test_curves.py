import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from rag_lab.positions.conditions import ConditionResults
from rag_lab.positions.curves import PositionCurve, expanded, shuffle_positions


def curve_of(values: np.ndarray, likelihood: bool = False) -> PositionCurve:
    """A curve with these accuracies (n, positions); NaN stands for an error."""
    n, width = values.shape
    errors = {(str(i), int(j)): "529 overloaded" for i, j in np.argwhere(np.isnan(values))}
    return PositionCurve(
        "stub",
        "made by hand",
        tuple(range(width)),
        tuple(map(str, range(n))),
        tuple(("",) * width for _ in range(n)),
        values,
        np.zeros_like(values),
        values - 5 if likelihood else None,
        errors,
    )


def drawn(means: list[float], n: int = 200, seed: int = 0) -> PositionCurve:
    """Answers that are right with the given chance at each position."""
    return curve_of((np.random.default_rng(seed).random((n, len(means))) < means).astype(float))


@pytest.mark.parametrize(
    ("means", "shape"),
    [
        ([0.9, 0.4, 0.3, 0.4, 0.9], "U-shaped"),
        ([0.9, 0.3, 0.3, 0.3, 0.6], "U-shaped"),  # the weaker end too is over the middle
        ([0.9, 0.3, 0.3, 0.3, 0.3], "primacy"),  # ends over the middle, but by the first alone
        ([0.3, 0.3, 0.3, 0.3, 0.9], "recency"),
        ([0.9, 0.7, 0.6, 0.5, 0.3], "primacy"),  # a slope: ends as good as the middle
        ([0.3, 0.5, 0.6, 0.7, 0.9], "recency"),
        ([0.2, 0.8, 0.8, 0.8, 0.2], "inverted U"),
        ([0.1, 0.9, 0.9, 0.9, 0.4], "inverted U"),  # the better end too is under the middle
        ([0.1, 0.8, 0.8, 0.8, 0.8], "recency"),  # ends under the middle, but by the first alone
        ([0.5, 0.5, 0.5, 0.5, 0.5], "flat"),
        ([1.0, 1.0, 1.0, 1.0, 1.0], "flat"),
    ],
)
def test_a_known_curve_gets_its_name(means: list[float], shape: str) -> None:
    assert drawn(means).classify().shape == shape


def test_contrasts_by_hand() -> None:
    # Two questions, three positions. Ends less middle: (1 + 0) / 2 - 0 = 0.5 and (1 + 1) / 2 - 1 = 0: mean 0.25.
    shape = curve_of(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).classify()
    assert shape.ends_against_middle.value == 0.25
    assert shape.first_against_last.value == 0.5
    assert shape.weaker_end_against_middle.value == 0.0
    assert shape.ends_against_middle.n == 2


def test_a_question_with_an_error_is_left_out_everywhere() -> None:
    curve = curve_of(np.array([[1.0, np.nan, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    assert [interval.value for interval in curve.intervals()] == [0.5, 1.0, 0.5]
    assert {interval.n for interval in curve.intervals()} == {2}
    assert curve.difference(0, 1).value == -0.5
    assert curve.errors == {("0", 1): "529 overloaded"}
    assert all(row["errors"] == 1 for row in curve.rows("position", ["accuracy"]))


def test_rows_spell_out_their_intervals() -> None:
    row = curve_of(np.ones((4, 3)), likelihood=True).rows("position", ["accuracy", "log_likelihood"])[3]
    assert row == {
        "task": "made by hand",
        "measure": "log_likelihood",
        "position": 0,
        "errors": 0,
        "value": -4.0,
        "low": -4.0,
        "high": -4.0,
        "n": 4,
    }


@pytest.mark.parametrize(("n", "shape"), [(1, "flat"), (6, "flat"), (7, "U-shaped")])
def test_a_few_questions_that_agree_are_no_shape(n: int, shape: str) -> None:
    # Six coins fall alike in 2 · 0.5⁶ = 3.1% of cases, seven in 1.6%; a contrast leaves 2.5% to chance.
    assert curve_of(np.tile([1.0, 0.0, 1.0], (n, 1))).classify().shape == shape


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lambda: curve_of(np.full((2, 3), np.nan)).intervals(), "529 overloaded"),
        (lambda: curve_of(np.zeros((0, 3))).classify(), "there are no questions"),
        (lambda: drawn([0.5, 0.5, 0.5]).values("f1"), "no measure 'f1'"),  # type: ignore[arg-type]
        (lambda: drawn([0.5, 0.5, 0.5]).difference(0, 7), "no condition 7; there are: 0, 1, 2"),
        (lambda: drawn([0.5, 0.5, 0.5]).classify("log_likelihood"), "gives no likelihood"),
        (lambda: drawn([0.5, 0.5]).classify(), "no middle"),
    ],
)
def test_what_was_not_measured_is_named(measure: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure()


def test_the_permutation_control_is_flat() -> None:
    curve = drawn([0.95, 0.3, 0.2, 0.3, 0.9], n=60)
    assert curve.classify().shape == "U-shaped"
    # At 95% five in a hundred may look like something; under Binomial(40, 0.05) more than 6 are one chance in 300.
    shapes = [shuffle_positions(curve, seed).classify().shape for seed in range(40)]
    assert shapes.count("flat") >= 34


def test_the_permutation_control_moves_values_only_within_their_question() -> None:
    curve = replace(drawn([0.9, 0.3, 0.2], n=50), log_likelihood=np.arange(150.0).reshape(50, 3))
    shuffled = shuffle_positions(curve, 3)
    assert shuffled.log_likelihood is not None
    assert curve.log_likelihood is not None
    assert not np.array_equal(shuffled.log_likelihood, curve.log_likelihood)
    assert np.array_equal(np.sort(shuffled.log_likelihood, axis=1), curve.log_likelihood)
    moved = (shuffled.log_likelihood % 3).astype(int)  # accuracy and likelihood move together
    assert np.array_equal(shuffled.accuracy, np.take_along_axis(curve.accuracy, moved, axis=1))


def test_outcomes_by_name() -> None:
    outcomes = ConditionResults(
        "stub",
        "x",
        ("ranked", "reversed"),
        ("a", "b"),
        (("", ""), ("", "")),
        np.array([[1.0, 0.0], [1.0, 1.0]]),
        np.zeros((2, 2)),
        None,
        {},
    )
    assert outcomes.difference("ranked", "reversed").value == 0.5


@pytest.mark.parametrize(
    ("level", "n", "t"),
    # Student's quantiles for n - 1 degrees of freedom, from printed tables.
    [(0.95, 7, 2.447), (0.95, 11, 2.228), (0.99, 11, 3.169), (0.95, 31, 2.042), (0.95, 121, 1.980)],
)
def test_levels_of_few_values_are_expanded(level: float, n: int, t: float) -> None:
    z = NormalDist().inv_cdf((1 + expanded(level, n)) / 2)
    assert z == pytest.approx(t * math.sqrt(n / (n - 1)), abs=0.006)


def test_levels_of_fewer_than_decide_stay() -> None:
    assert expanded(0.975, 6) == 0.975


@pytest.mark.parametrize("n", [7, 16, 40])
def test_curves_of_chance_are_mostly_flat(n: int) -> None:
    """95% in the long run: 190 of 200, with a standard deviation of 3. Without ``expanded`` it is 170 with n = 7."""
    chance = np.random.default_rng(0)
    flat = sum(curve_of(chance.normal(size=(n, 5))).classify().shape == "flat" for _ in range(200))
    assert flat >= 181
