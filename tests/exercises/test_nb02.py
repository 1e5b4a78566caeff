"""Each check accepts a right answer and refuses the wrong ones that it is there for."""

import numpy as np
import pytest

from rag_lab.exercises import nb02


def pool(vectors: np.ndarray, spans: list[tuple[int, int]]) -> np.ndarray:
    means = np.array([vectors[first:last].mean(axis=0) for first, last in spans])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def test_pooling() -> None:
    assert nb02.check_pool(pool) is None
    assert nb02.check_pool(lambda vectors, spans: pool(vectors, spans).tolist()) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (lambda vectors, spans: [vectors[a:b].mean(axis=0) for a, b in spans], "divide each by its own length"),
        (lambda vectors, spans: pool(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), spans), "mean first"),
        (lambda vectors, spans: pool(vectors, [(0, 3), (2, 4)]), "ends before last"),
        (lambda vectors, spans: pool(vectors, spans)[0], "shape"),
    ],
    ids=["not normalised", "normalised before the mean", "one token too many", "one vector"],
)
def test_wrong_pooling(attempt, hint: str) -> None:
    assert hint in nb02.check_pool(attempt)


def test_special_tokens() -> None:
    # 9 tokens of the text are rows 1 to 9; [CLS] is row 0 and [SEP] row 10.
    assert nb02.check_special_tokens([(0, 4), (4, 6), (6, 11)]) is None
    assert nb02.check_special_tokens([[0, 4], [4, 6], [6, 11]]) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        ([(0, 3), (3, 5), (5, 9)], "too early"),
        ([(1, 4), (4, 6), (6, 10)], "pooled nowhere"),
        ([(0, 4), (4, 6), (6, 10)], "11 rows"),
        ([], "11 rows"),
    ],
)
def test_wrong_special_tokens(attempt, hint: str) -> None:
    assert hint in nb02.check_special_tokens(attempt)


def test_straddling_tokens() -> None:
    # "chunk" starts at 5, in characters 0 to 8; "pools" at 14, in 8 to 16: both end in the next chunk.
    assert nb02.check_straddling([0, 0, 1, 1, 2]) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [([0, 1, 1, 1, 2], "'chunk'"), ([0, 0, 1, 2, 2], "'pools'"), ([0, 0, 1, 1], "each of the 5 tokens")],
)
def test_wrong_straddling_tokens(attempt, hint: str) -> None:
    assert hint in nb02.check_straddling(attempt)


def test_windows() -> None:
    # A window of 512 holds 510 of the text's own tokens; each further one brings 510 - 128 = 382 new ones, so two
    # reach 892 (894 with [CLS] and [SEP]).
    assert nb02.check_windows({512: 1, 513: 2, 894: 2, 895: 3}, 512, 128) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        ({512: 2, 513: 2, 894: 2, 895: 3}, "512 tokens"),
        ({512: 1, 513: 1, 894: 2, 895: 3}, "513 tokens"),
        ({512: 1, 513: 2, 894: 2, 895: 2}, "895 tokens"),
        ({512: 1}, "each of 512, 513, 894, 895"),
        ({512: 1, 513: 2, 894: ..., 895: ...}, "no number yet for 894"),
    ],
)
def test_wrong_windows(attempt, hint: str) -> None:
    assert hint in nb02.check_windows(attempt, 512, 128)
