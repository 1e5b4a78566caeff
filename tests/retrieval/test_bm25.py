"""BM25 on collections small enough to work out by hand, beside bm25s, and a published number."""

import math
import sys
from pathlib import Path

import bm25s
import numpy as np
import pytest
import rank_bm25
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab import results
from rag_lab.datasets import load_scifact
from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, BM25Index, analyze
from rag_lab.types import Chunk
from tests.benchmarks.measure_scifact_bm25 import lucene_row
from tests.support.hits import chunks_of, found


def test_bm25_scores_by_hand() -> None:
    index = BM25Index(chunks_of("red red car", "blue car", "blue sky today now"), k1=1.2, b=0.5)
    (hit,) = index.search("red", 5)
    # N = 3, n = 1, tf = 2, length 3, mean length 3: ln(1 + 2.5 / 1.5) * 2 / (2 + 1.2) = 0.61302
    assert hit.score == pytest.approx(0.61302, abs=1e-5)
    # n = 2: ln(1 + 1.5 / 2.5) = 0.470004; tf = 1; lengths 2 and 4: 1 + 1.2 * (0.5 + 0.5 * length / 3) = 2 and 2.4
    hits = index.search("Blue", 5)
    assert found(hits) == [1, 2]
    assert [hit.score for hit in hits] == pytest.approx([0.470004 * 0.5, 0.470004 / 2.4], abs=1e-5)
    assert [hit.score for hit in index.search("blue blue", 5)] == pytest.approx([2 * hit.score for hit in hits])


def test_a_term_in_half_or_all_of_a_tiny_collection_still_counts() -> None:
    index = BM25Index(chunks_of("berlin wall", "berlin zoo", "paris metro", "rome forum"))
    assert found(index.search("berlin", 5)) == [0, 1]
    assert all(hit.score > 0 for hit in index.search("berlin", 5))
    everywhere = BM25Index(chunks_of("berlin wall", "berlin zoo"))
    assert found(everywhere.search("berlin zoo", 5)) == [1, 0]
    assert all(hit.score > 0 for hit in everywhere.search("berlin", 5))
    assert found(BM25Index(chunks_of("alone")).search("alone", 1)) == [0]


def test_rank_bm25_itself_fails_on_a_tiny_collection() -> None:
    # Why the index does not take rank-bm25's scores: the reasons given in BM25Index.
    texts = [["berlin", "wall"], ["berlin", "zoo"], ["paris", "metro"], ["rome", "forum"]]
    assert rank_bm25.BM25Okapi(texts).get_scores(["berlin"]).max() == 0
    assert rank_bm25.BM25Okapi(texts[:2]).get_scores(["berlin"]).max() < 0
    once, often = rank_bm25.BM25L([["berlin"] * 10 + ["x"] * 90, ["berlin"] * 100]).get_scores(["berlin"])
    assert often > 9 * once
    assert rank_bm25.BM25Plus(texts).get_scores(["berlin"])[3] > 0


def test_nothing_is_found_without_a_common_term() -> None:
    index = BM25Index(chunks_of("berlin wall", "paris metro", "… !", ""))
    for query in ("", "   ", "?!", "london", "el"):
        assert index.search(query, 5) == []
    assert found(index.search("london berlin", 5)) == [0]


def test_bm25_ties_filters_and_k() -> None:
    index = BM25Index(chunks_of(*["same words here", "other text there"] * 3))
    assert found(index.search("words same", 10)) == [0, 2, 4]
    assert found(index.search("same words", 2)) == [0, 2]
    assert found(index.search("same", 10, where=lambda chunk: chunk.index > 0)) == [2, 4]
    assert index.search("absent", 10, where=lambda chunk: True) == []
    with pytest.raises(ValueError, match="k is 0"):
        index.search("same", 0)


def test_the_context_is_indexed_with_the_text() -> None:
    contextual = Chunk("doc", 0, "It has 3.7 million residents.", 0, 29, context="About Berlin.")
    index = BM25Index([contextual, *chunks_of("Vienna has parks.")])
    assert [hit.chunk for hit in index.search("Berlin", 3)] == [contextual]


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
def test_every_script_is_found(text: str, query: str) -> None:
    index = BM25Index(chunks_of("an unrelated text", text, "ещё один текст", "另一份文件", "متن دیگر"))
    assert found(index.search(query, 1)) == [1]


def test_stemming_and_stop_words_are_options() -> None:
    chunks = chunks_of("The runner was running.", "The sky is blue.")
    assert BM25Index(chunks).search("runs", 5) == []
    assert found(BM25Index(chunks, stem="english").search("runs", 5)) == [0]
    assert found(BM25Index(chunks).search("the", 5)) == [0, 1]
    assert BM25Index(chunks, stop_words=ENGLISH_STOP_WORDS).search("the", 5) == []


def test_nothing_to_index_is_an_error() -> None:
    with pytest.raises(ValueError, match="no chunks to index"):
        BM25Index([])
    with pytest.raises(ValueError, match="None of the 2 chunks has a letter"):
        BM25Index(chunks_of("…", ""))


words = st.lists(st.sampled_from("abcdef"), max_size=8).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=12).filter(any), words)
def test_the_scores_are_those_of_bm25s_with_lucenes_weights(texts: list[str], query: str) -> None:
    hits = BM25Index(chunks_of(*texts)).search(query, 20)
    assert set(found(hits)) == {i for i, text in enumerate(texts) if set(text.split()) & set(query.split())}
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    peer.index([text.split() for text in texts], show_progress=False)
    ids = peer.get_tokens_ids(query.split())
    scores = peer.get_scores_from_ids(ids) if ids else np.zeros(len(texts))
    assert {hit.chunk.index: hit.score for hit in hits} == pytest.approx(
        {i: score for i, score in enumerate(scores) if score > 0}, rel=1e-5
    )


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


@pytest.mark.shared
def test_lucene_settings_reproduce_anserini_on_scifact(published_data: Path) -> None:
    scifact = load_scifact()
    published = results.published("anserini_bm25_scifact").values["nDCG@10"]
    assert published == 0.6789
    assert lucene_row(scifact).mean() == pytest.approx(published, abs=0.005)


# The analyzer: terms in the scripts that the corpora and their readers use


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Berlin's 3 parks, and the Café!", ["berlin", "3", "parks", "and", "the", "café"]),
        ("Straße ﬁne １２", ["strasse", "fine", "12"]),
        ("Ёлки стоят", ["елки", "стоят"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs and viramas stay in their words
        ("❤️ 👍🏽 … — ! __", []),
        ("", []),
        ("soft\u00adhyphen", ["softhyphen"]),
    ],
)
def test_words(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("كتاب علي", "کتاب علی"),  # Arabic kaf and yeh, Persian keheh and yeh
        ("كُتُبٌ", "كتب"),  # harakat
        ("أحمد آب مدرسة", "احمد اب مدرسه"),
        ("خانۀ", "خانه"),
        ("كتـــاب", "كتاب"),  # tatweel
        ("شماره ۱۲۳۴۵ و ٦٧", "شماره 12345 و 67"),
        ("שָׁלוֹם", "שלום"),  # niqqud
        ("צה״ל", 'צה"ל'),
        ("ﻛﺘﺎﺏ", "كتاب"),  # presentation forms
        ("1,234,567", "1234567"),
        ("۱٬۲۳۴٫۵", "1234.5"),
        ("cafe\u0301", "café"),  # combining and composed
    ],
)
def test_two_spellings_of_one_word_give_the_same_terms(one: str, other: str) -> None:
    assert analyze(one) == analyze(other) != []


def test_a_persian_compound_is_found_joined_apart_and_with_its_joiner() -> None:
    terms = set(analyze("می\u200cخواهم"))
    for spelling in ("می\u200cخواهم", "می خواهم", "میخواهم"):
        assert set(analyze(spelling)) <= terms


@pytest.mark.parametrize(
    ("identifier", "terms"),
    [
        ("getUserName", ["get", "user", "name", "getusername"]),
        ("get_user_name", ["get", "user", "name", "get_user_name"]),
        ("parseHTTPResponse", ["parse", "http", "response", "parsehttpresponse"]),
        ("__init__", ["init", "__init__"]),
        ("MAX_SIZE", ["max", "size", "max_size"]),
        ("utf8Decoder", ["utf8", "decoder", "utf8decoder"]),
        ("self.fooBar(x_1)", ["self", "foo", "bar", "foobar", "x_1"]),
        ("HTTP DNA p53", ["http", "dna", "p53"]),
        ("3.85", ["85", "3.85"]),
        ("01.05.2024", ["01", "05", "2024", "01.05.2024"]),
    ],
)
def test_identifiers_and_numbers_give_their_parts_and_the_whole(identifier: str, terms: list[str]) -> None:
    assert analyze(identifier) == terms


def test_scripts_without_spaces_are_cut_into_pairs() -> None:
    assert analyze("北京大学") == ["北", "京", "大", "学", "北京", "京大", "大学"]
    assert analyze("北京大学", query=True) == ["北京", "京大", "大学"]
    assert analyze("猫", query=True) == ["猫"]  # which a text holds too, as a single character
    assert analyze("iPhone15でした", query=True) == ["phone15", "iphone15", "でし", "した"]
    assert analyze("コーヒー", query=True) == ["コー", "ーヒ", "ヒー"]
    assert analyze("한국어는 쉽다", query=True) == ["한국", "국어", "어는", "쉽다"]
    assert "ไท" in analyze("ภาษาไทย", query=True)


def test_stop_words_go_before_stemming() -> None:
    assert analyze("The dogs were running", stem="english") == ["the", "dog", "were", "run"]
    assert analyze("The dogs were running", "english", ENGLISH_STOP_WORDS) == ["dog", "were", "run"]
    assert analyze("running", "english", frozenset({"run"})) == ["run"]
    assert analyze("книгами", stem="russian") == analyze("книга", stem="russian")
    assert len(ENGLISH_STOP_WORDS) == 33


def test_an_unknown_or_absent_stemmer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"no stemmer 'klingon'.*english"):
        analyze("words", stem="klingon")
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(ImportError, match="pip install PyStemmer"):
        analyze("other", stem="english")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_found_by_itself_in_any_case(text: str) -> None:
    terms = analyze(text)
    assert all(term and not any(map(str.isspace, term)) for term in terms)
    assert set(analyze(text, query=True)) <= set(terms)
