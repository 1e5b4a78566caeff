"""Each check of notebook 03 accepts the right answer and gives a hint for likely wrong ones."""

import zlib
from typing import Any

import numpy as np
import pytest

from rag_lab.datasets import load_corpus
from rag_lab.exercises import nb03
from rag_lab.retrieval.bm25 import analyze


def test_fusion() -> None:
    # d: 1/64 + 1/61 = 0.03202, c: 1/63 + 1/62 = 0.03200, a: 1/61 = 0.0164, b: 1/62 = 0.0161, e: 1/63 = 0.0159.
    assert nb03.check_fusion(["d", "c", "a", "b", "e"]) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        # Without the 60: d 1/4 + 1 = 1.25, a 1, c 1/3 + 1/2 = 0.83, b 0.5, e 0.33.
        ("dacbe", "60 added"),
        ("abcde", "at most 1/61"),
        ("cdabe", "and add"),
        ("abcd", "each of a, b, c, d, e once"),
        ("abcdd", "each of a, b, c, d, e once"),
    ],
)
def test_wrong_fusion(attempt: str, hint: str) -> None:
    assert hint in str(nb03.check_fusion(list(attempt)))


# Haiku 5.5, dollars per million: write 0.125, read 0.01, input 0.10, output 0.50.
WRITE = 30_000 * 0.125 / 1e6
READ = 30_000 * 0.01 / 1e6
NEW = 20 * 1_600 * 0.10 / 1e6
OUT = 20 * 80 * 0.50 / 1e6


def test_cost() -> None:
    assert nb03.check_cost(WRITE + 19 * READ + NEW + OUT) is None
    assert nb03.check_cost(0.01345) is None


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (WRITE + 20 * READ + NEW + OUT, "does not read it"),
        (20 * 31_600 * 0.10 / 1e6 + OUT, "without a cache"),
        (WRITE + 19 * READ + NEW, "contexts are output"),
        (13_450, "per million"),
        (1.0, "four parts"),
    ],
)
def test_wrong_cost(attempt: float, hint: str) -> None:
    assert hint in str(nb03.check_cost(attempt))


class WordEncoder:
    """A test double: a text's vector counts its words, each in one of 512 places."""

    def encode(self, texts: list[str], kind: str = "passage") -> Any:
        vectors = np.full((len(texts), 512), 1e-6, np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in analyze(text):
                vector[zlib.crc32(word.encode()) % 512] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_context(capsys: pytest.CaptureFixture[str]) -> None:
    cities = load_corpus("cities")
    encoder: Any = WordEncoder()
    assert nb03.check_context(lambda document, chunk: document.title, cities, encoder) is None
    printed = capsys.readouterr().out
    assert "recall@5, yours" in printed
    assert "recall@5, add_heading_context" in printed


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (lambda document, chunk: None, "is a text"),
        (lambda document, chunk: f"{document.title}. {chunk.text}", "the context alone"),
        (lambda document, chunk: "", "no more than none"),
    ],
    ids=["no text", "the chunk too", "empty"],
)
def test_wrong_context(attempt: Any, hint: str) -> None:
    encoder: Any = WordEncoder()
    assert hint in str(nb03.check_context(attempt, load_corpus("cities"), encoder))
