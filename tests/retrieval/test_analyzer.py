"""Terms in the scripts that the corpora and their readers use."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, analyze


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
