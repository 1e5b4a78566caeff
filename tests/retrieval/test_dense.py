"""Dense search on collections small enough to work out by hand; saving and loading."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.types import Chunk
from tests.support.hits import chunks_of, found

# Dense


def test_dense_search_ranks_by_inner_product() -> None:
    index = DenseIndex(chunks_of("a", "b", "c"), [[1, 0], [0.6, 0.8], [0, 1]])
    hits = index.search([0.8, 0.6], 2)
    assert found(hits) == [1, 0]
    assert [hit.score for hit in hits] == pytest.approx([0.96, 0.8])  # 0.6 * 0.8 + 0.8 * 0.6
    assert found(index.search([0.8, 0.6], 99)) == [1, 0, 2]


def test_equal_vectors_keep_the_order_indexed() -> None:
    # A matrix product works in blocks of rows, and rounds the rows that are left over differently: without care, half
    # of these would be out of order.
    rng = np.random.default_rng(0)
    for rows in range(2, 60):
        vector, query = rng.normal(size=(2, 384)).astype(np.float32) / 20
        index = DenseIndex(chunks_of(*["same"] * rows), np.tile(vector, (rows, 1)))
        assert found(index.search(query, rows)) == list(range(rows))
        assert found(index.search(query, 2)) == [0, 1]


def test_a_filter_chooses_before_the_best_are_counted() -> None:
    chunks = [Chunk("d", i, "t", 0, 1, metadata={"year": 2020 + i}, section_path=("A",)) for i in range(4)]
    index = DenseIndex(chunks, [[4], [3], [2], [1]])
    assert found(index.search([1], 2, where=lambda chunk: chunk.metadata["year"] >= 2022)) == [2, 3]
    assert index.search([1], 2, where=lambda chunk: chunk.section_path == ("B",)) == []


def test_vectors_of_another_shape_are_refused() -> None:
    chunks = chunks_of("a", "b")
    for vectors in ([[1, 0]], [1, 0], np.zeros((2, 2, 2))):
        with pytest.raises(ValueError, match="2 chunks need as many rows"):
            DenseIndex(chunks, vectors)
    with pytest.raises(ValueError, match="1 of 4 vector components"):
        DenseIndex(chunks, [[1, 0], [0, math.nan]])
    index = DenseIndex(chunks, [[1, 0], [0, 1]])
    for query in ([1, 0, 0], [[1, 0]], 1):
        with pytest.raises(ValueError, match=r"the index holds \(2,\)"):
            index.search(query, 1)
    with pytest.raises(ValueError, match="NaN"):
        index.search([math.inf, 0], 1)
    with pytest.raises(ValueError, match="k is 0"):
        index.search([1, 0], 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 35))
def test_the_best_k_are_those_of_a_full_stable_sort(values: list[int], k: int) -> None:
    index = DenseIndex(chunks_of(*["x"] * len(values)), np.array(values, dtype=float)[:, None])
    assert found(index.search([1.0], k)) == sorted(range(len(values)), key=lambda i: -values[i])[:k]


# Saving


def chunks_with_context() -> list[Chunk]:
    metadata = {"date": "2024-05-01", "tags": ["a", "b"], "year": 2024}
    text = "שלום\u2028به\u200cنام 🏔️"
    return [
        Chunk("dir/doc", 3, text, 5, 5 + len(text), "T", "u", ("A", "B"), metadata, 'About "it".\nTwo lines.'),
        *chunks_of("plain"),
    ]


def test_a_dense_index_comes_back_as_it_was(tmp_path: Path) -> None:
    index = DenseIndex(chunks_with_context(), [[0.1, 0.2], [0.3, 0.4]])
    for _ in range(2):  # the second replaces the first
        index.save(tmp_path / "index")
    back = DenseIndex.load(tmp_path / "index")
    assert back.chunks == index.chunks
    assert np.array_equal(back.vectors, index.vectors)
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == ["chunks.jsonl", "vectors.npz"]


def test_a_bm25_index_comes_back_as_it_was(tmp_path: Path) -> None:
    index = BM25Index(chunks_with_context(), "english", frozenset({"about"}), k1=0.9, b=0.4)
    index.save(tmp_path)
    back = BM25Index.load(tmp_path)
    assert (back.chunks, back.options) == (index.chunks, index.options)
    assert back.search("lines", 2) == index.search("lines", 2) != []
    assert back.search("about", 2) == []


def test_files_of_two_indexes_are_not_mixed(tmp_path: Path) -> None:
    DenseIndex(chunks_with_context(), [[1], [2]]).save(tmp_path)
    BM25Index(chunks_of("a", "b")).save(tmp_path)  # writes chunks.jsonl over that of the dense index
    with pytest.raises(ValueError, match="index the chunks again"):
        DenseIndex.load(tmp_path)
    for load in (DenseIndex.load, BM25Index.load):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "absent")
