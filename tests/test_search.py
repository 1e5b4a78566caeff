"""Dense search, BM25 on both engines, and rank fusion, on collections small enough to work out by hand."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rank_bm25
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.documents import Chunk
from rag_lab.search import (
    BM25Index,
    DenseIndex,
    Hit,
    dense_retriever,
    fused_retriever,
    reciprocal_rank_fusion,
)
from rag_lab.tokens import ENGLISH_STOP_WORDS

ENGINES = ("rank_bm25", "bm25s")
engines = pytest.mark.parametrize("engine", ENGINES)


def chunks_of(*texts: str) -> list[Chunk]:
    return [Chunk("doc", i, text, 0, len(text)) for i, text in enumerate(texts)]


def found(hits: Sequence[Hit]) -> list[int]:
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [hit.chunk.index for hit in hits]


# Dense


def test_dense_search_ranks_by_inner_product() -> None:
    index = DenseIndex(chunks_of("a", "b", "c"), [[1, 0], [0.6, 0.8], [0, 1]])
    hits = index.search([0.8, 0.6], 2)
    assert found(hits) == [1, 0]
    assert [hit.score for hit in hits] == pytest.approx([0.96, 0.8])  # 0.6 * 0.8 + 0.8 * 0.6
    assert found(index.search([0.8, 0.6], 99)) == [1, 0, 2]


def test_equal_vectors_stand_in_the_order_indexed() -> None:
    # 401 rows: a matrix product works in blocks, and the odd row at the end is rounded differently.
    vector = np.random.default_rng(0).normal(size=384).astype(np.float32)
    vector /= np.linalg.norm(vector)
    query = np.random.default_rng(1).normal(size=384).astype(np.float32)
    query /= np.linalg.norm(query)
    index = DenseIndex(chunks_of(*["same"] * 401), np.tile(vector, (401, 1)))
    assert found(index.search(query, 401)) == list(range(401))
    assert found(index.search(query, 3)) == [0, 1, 2]


def test_a_filter_chooses_before_the_best_are_counted() -> None:
    chunks = [Chunk("d", i, "t", 0, 1, metadata={"year": 2020 + i}, section_path=("A",)) for i in range(4)]
    index = DenseIndex(chunks, [[4], [3], [2], [1]])
    assert found(index.search([1], 2, where=lambda chunk: chunk.metadata["year"] >= 2022)) == [2, 3]
    assert index.search([1], 2, where=lambda chunk: chunk.section_path == ("B",)) == []


def test_dense_input_that_fits_nothing_is_refused() -> None:
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


# BM25


@engines
def test_bm25_scores_by_hand(engine: Any) -> None:
    index = BM25Index(chunks_of("red red car", "blue car", "blue sky today now"), engine, k1=1.2, b=0.5)
    (hit,) = index.search("red", 5)
    # N = 3, n = 1, tf = 2, length 3, mean length 3: ln(1 + 2.5 / 1.5) * 2 / (2 + 1.2) = 0.61302
    assert hit.score == pytest.approx(0.61302, abs=1e-5)
    # n = 2: ln(1 + 1.5 / 2.5) = 0.470004; tf = 1; lengths 2 and 4: 1 + 1.2 * (0.5 + 0.5 * length / 3) = 2 and 2.4
    hits = index.search("Blue", 5)
    assert found(hits) == [1, 2]
    assert [hit.score for hit in hits] == pytest.approx([0.470004 * 0.5, 0.470004 / 2.4], abs=1e-5)
    assert [hit.score for hit in index.search("blue blue", 5)] == pytest.approx([2 * hit.score for hit in hits])


@engines
def test_a_term_in_half_or_all_of_a_tiny_collection_still_counts(engine: Any) -> None:
    index = BM25Index(chunks_of("berlin wall", "berlin zoo", "paris metro", "rome forum"), engine)
    assert found(index.search("berlin", 5)) == [0, 1]
    assert all(hit.score > 0 for hit in index.search("berlin", 5))
    everywhere = BM25Index(chunks_of("berlin wall", "berlin zoo"), engine)
    assert found(everywhere.search("berlin zoo", 5)) == [1, 0]
    assert all(hit.score > 0 for hit in everywhere.search("berlin", 5))
    assert found(BM25Index(chunks_of("alone"), engine).search("alone", 1)) == [0]


def test_rank_bm25_itself_fails_on_a_tiny_collection() -> None:
    # Why the index does not take rank-bm25's scores: the reasons given in BM25Index.
    texts = [["berlin", "wall"], ["berlin", "zoo"], ["paris", "metro"], ["rome", "forum"]]
    assert rank_bm25.BM25Okapi(texts).get_scores(["berlin"]).max() == 0
    assert rank_bm25.BM25Okapi(texts[:2]).get_scores(["berlin"]).max() < 0
    once, often = rank_bm25.BM25L([["berlin"] * 10 + ["x"] * 90, ["berlin"] * 100]).get_scores(["berlin"])
    assert often > 9 * once
    assert rank_bm25.BM25Plus(texts).get_scores(["berlin"])[3] > 0


@engines
def test_nothing_is_found_where_no_term_is_held(engine: Any) -> None:
    index = BM25Index(chunks_of("berlin wall", "paris metro", "… !", ""), engine)
    for query in ("", "   ", "?!", "london", "el"):
        assert index.search(query, 5) == []
    assert found(index.search("london berlin", 5)) == [0]


@engines
def test_bm25_ties_filters_and_k(engine: Any) -> None:
    index = BM25Index(chunks_of(*["same words here", "other text there"] * 3), engine)
    assert found(index.search("words same", 10)) == [0, 2, 4]
    assert found(index.search("same words", 2)) == [0, 2]
    assert found(index.search("same", 10, where=lambda chunk: chunk.index > 0)) == [2, 4]
    with pytest.raises(ValueError, match="k is 0"):
        index.search("same", 0)


@engines
def test_the_context_is_indexed_with_the_text(engine: Any) -> None:
    situated = Chunk("doc", 0, "It has 3.7 million residents.", 0, 29, context="About Berlin.")
    index = BM25Index([situated, *chunks_of("Vienna has parks.")], engine)
    assert [hit.chunk for hit in index.search("Berlin", 3)] == [situated]


@engines
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Der Vertrag gilt für Überschwemmungen.", "überschwemmungen"),
        ("Договор действует с 2021 года.", "ДОГОВОР"),
        ("הביטוח כולל שִׁטָּפוֹן", "שטפון"),
        ("سقف پرداخت ۵۰٬۰۰۰ یورو است و بیمه‌نامه معتبر است.", "بيمه نامه 50000"),
        ("保险金额提高一倍", "金额"),
        ("保险金额提高一倍", "倍"),
        ("def load_model(modelName): ...", "model name"),
        ("def load_model(modelName): ...", "load_model"),
    ],
)
def test_every_script_is_found(engine: Any, text: str, query: str) -> None:
    index = BM25Index(chunks_of("an unrelated text", text, "ещё один текст", "另一份文件", "متن دیگر"), engine)
    assert found(index.search(query, 1)) == [1]


@engines
def test_stemming_and_stop_words_are_options(engine: Any) -> None:
    chunks = chunks_of("The runner was running.", "The sky is blue.")
    assert BM25Index(chunks, engine).search("runs", 5) == []
    assert found(BM25Index(chunks, engine, stem="english").search("runs", 5)) == [0]
    assert found(BM25Index(chunks, engine).search("the", 5)) == [0, 1]
    assert BM25Index(chunks, engine, stop_words=ENGLISH_STOP_WORDS).search("the", 5) == []


def test_bad_options_and_absent_extras_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no chunks"):
        BM25Index([])
    with pytest.raises(ValueError, match="none of the 2 chunks holds a letter"):
        BM25Index(chunks_of("…", ""))
    with pytest.raises(ValueError, match="no engine 'lucene'"):
        BM25Index(chunks_of("a"), engine="lucene")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ImportError, match="pip install bm25s"):
        BM25Index(chunks_of("a"), engine="bm25s")


words = st.lists(st.sampled_from("abcdef"), max_size=8).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=12).filter(any), words)
def test_both_engines_find_what_holds_a_term_with_the_same_scores(texts: list[str], query: str) -> None:
    chunks = chunks_of(*texts)
    by_engine = {engine: BM25Index(chunks, engine).search(query, 20) for engine in ENGINES}
    holders = {i for i, text in enumerate(texts) if set(text.split()) & set(query.split())}
    for hits in by_engine.values():
        assert set(found(hits)) == holders
    one, other = ({hit.chunk.index: hit.score for hit in hits} for hits in by_engine.values())
    assert one == pytest.approx(other, rel=1e-5)


def test_the_postings_give_what_rank_bm25_gives_with_the_same_idf() -> None:
    # rank-bm25 has a factor k1 + 1 in every weight, which changes no order. Its IDF is replaced by Lucene's.
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), size=size)) for size in rng.integers(3, 12, size=40)]
    bare = rank_bm25.BM25Okapi([text.split() for text in texts], k1=0.9, b=0.4)
    holders = {term: sum(term in text for text in texts) for term in bare.idf}
    bare.idf = {term: math.log(1 + (40 - n + 0.5) / (n + 0.5)) for term, n in holders.items()}
    expected = bare.get_scores(list("aab")) / 1.9
    hits = BM25Index(chunks_of(*texts), k1=0.9, b=0.4).search("a a b", 40)
    assert {hit.chunk.index: hit.score for hit in hits} == pytest.approx(
        {i: score for i, score in enumerate(expected) if score > 0}
    )


# Saving


def situated_chunks() -> list[Chunk]:
    metadata = {"date": "2024-05-01", "tags": ["a", "b"], "year": 2024}
    text = "שלום\u2028به\u200cنام 🏔️"
    return [
        Chunk("dir/doc", 3, text, 5, 5 + len(text), "T", "u", ("A", "B"), metadata, 'About "it".\nTwo lines.'),
        *chunks_of("plain"),
    ]


def test_a_dense_index_comes_back_as_it_was(tmp_path: Path) -> None:
    index = DenseIndex(situated_chunks(), [[0.1, 0.2], [0.3, 0.4]])
    for _ in range(2):  # the second replaces the first
        index.save(tmp_path / "index")
    back = DenseIndex.load(tmp_path / "index")
    assert back.chunks == index.chunks
    assert np.array_equal(back.vectors, index.vectors)
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == ["chunks.jsonl", "vectors.npz"]


@engines
def test_a_bm25_index_comes_back_as_it_was(engine: Any, tmp_path: Path) -> None:
    index = BM25Index(situated_chunks(), engine, "english", frozenset({"about"}), k1=0.9, b=0.4)
    index.save(tmp_path)
    back = BM25Index.load(tmp_path)
    assert (back.chunks, back.options) == (index.chunks, index.options)
    assert back.search("lines", 2) == index.search("lines", 2) != []
    assert back.search("about", 2) == []


def test_files_of_two_indexes_are_not_mixed(tmp_path: Path) -> None:
    DenseIndex(situated_chunks(), [[1], [2]]).save(tmp_path)
    BM25Index(chunks_of("a", "b")).save(tmp_path)  # writes chunks.jsonl over that of the dense index
    with pytest.raises(ValueError, match="index the chunks anew"):
        DenseIndex.load(tmp_path)
    for load in (DenseIndex.load, BM25Index.load):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "absent")


# Fusion


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
        with pytest.raises(ValueError, match="weights"):
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
