"""Rank fusion by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.fusion import fused_retriever, reciprocal_rank_fusion
from rag_lab.types import Chunk, Hit
from tests.support.hits import chunks_of, found


def ranking(*indices: int) -> list[Hit]:
    return [Hit(Chunk("doc", i, "", 0, 0), 0.0, rank) for rank, i in enumerate(indices, 1)]


def test_fusion_by_hand() -> None:
    hits = reciprocal_rank_fusion([ranking(1, 2, 3), ranking(3, 4)])
    # 3: 1/63 + 1/61; 1: 1/61; then 2 and 4 tie at 1/62, and 2 came first.
    assert found(hits) == [3, 1, 2, 4]
    assert [hit.score for hit in hits] == pytest.approx([1 / 63 + 1 / 61, 1 / 61, 1 / 62, 1 / 62])


def test_a_repeat_counts_once_at_its_best_rank() -> None:
    hits = reciprocal_rank_fusion([ranking(2, 1, 1), list(reversed(ranking(1, 2, 1)))], k=0)
    # 1: 1/2 + 1/1; 2: 1/1 + 1/2.
    assert {hit.chunk.index: hit.score for hit in hits} == pytest.approx({1: 1.5, 2: 1.5})


def test_weights_scale_each_ranking() -> None:
    hits = reciprocal_rank_fusion([ranking(1, 2), ranking(2, 1)], k=60, weights=[0.2, 0.8])
    assert found(hits) == [2, 1]
    assert hits[0].score == pytest.approx(0.2 / 62 + 0.8 / 61)
    for weights in ([1.0], [1.0, 1.0, 1.0], [1.0, -1.0], [1.0, math.nan]):
        with pytest.raises(ValueError, match=r"[Ww]eights"):
            reciprocal_rank_fusion([ranking(1), ranking(2)], weights=weights)


def test_fusing_nothing_gives_nothing() -> None:
    assert reciprocal_rank_fusion([]) == reciprocal_rank_fusion([[], []]) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.permutations(range(5)), min_size=1, max_size=4), st.randoms())
def test_scores_do_not_depend_on_the_order_of_rankings(orders: list[list[int]], random: Any) -> None:
    rankings = [ranking(*order) for order in orders]
    shuffled = random.sample(rankings, len(rankings))
    one, other = ({hit.chunk.index: hit.score for hit in reciprocal_rank_fusion(r)} for r in (rankings, shuffled))
    assert one == other


def test_retrievers_are_called_with_a_question_and_k() -> None:
    class LettersEncoder:
        def encode(self, texts: list[str], kind: str) -> np.ndarray:
            assert kind == "query"
            return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)

    chunks = chunks_of("a a", "b b", "a b")
    dense = dense_retriever(DenseIndex(chunks, [[2, 0], [0, 2], [1, 1]]), LettersEncoder())  # type: ignore[arg-type]
    assert found(dense("b", 2)) == [1, 2]
    fused = fused_retriever([dense, BM25Index(chunks).search], weights=[0.5, 1.0])
    assert found(fused("b", 2)) == [1, 2]
    assert found(fused("a", 1)) == [0]
