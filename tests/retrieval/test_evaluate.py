"""Scores by hand on two documents of ten characters."""

import numpy as np
import pytest

from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.evaluate import dense_span_recalls, rank_documents, span_recalls
from rag_lab.types import Chunk, GoldSpan, Hit, Question

A = [Chunk("a", 0, "01234", 0, 5), Chunk("a", 1, "56789", 5, 10)]
B = [Chunk("b", 0, "abcdefghij", 0, 10)]
# The first question's gold is the second half of a and one character of its first half: six characters.
QUESTIONS = [
    Question("q1", "first", ("x",), (GoldSpan("a", 4, 10),)),
    Question("q2", "second", ("y",), (GoldSpan("b", 0, 10),)),
]


def retriever(question: str, k: int) -> list[Hit]:
    """Always a's second half, then b, then a's first half."""
    return [Hit(chunk, 1.0 / rank, rank) for rank, chunk in enumerate([A[1], B[0], A[0]][:k], 1)]


def test_span_recalls_by_hand() -> None:
    recalls = span_recalls(retriever, QUESTIONS, [3, 1, 2])
    assert recalls[1] == pytest.approx([5 / 6, 0])
    assert recalls[2] == pytest.approx([5 / 6, 1])
    assert recalls[3] == pytest.approx([1, 1])


def test_dense_span_recalls_uses_each_questions_own_vector() -> None:
    index = DenseIndex([*A, *B], np.eye(3, dtype=np.float32))
    queries = np.array([[0, 1, 0], [0, 0, 1]], np.float32)
    assert dense_span_recalls(index, queries, QUESTIONS, [1])[1] == pytest.approx([5 / 6, 1])


def test_documents_rank_by_their_best_chunk() -> None:
    assert rank_documents(retriever("", 3)) == ["a", "b"]
