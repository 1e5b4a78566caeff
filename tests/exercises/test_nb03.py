"""Notebook 03's check of contexts, on the cities."""

import zlib
from typing import Any

import numpy as np
import pytest

from rag_lab.datasets import load_corpus
from rag_lab.exercises import nb03
from rag_lab.retrieval.bm25 import analyze


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
