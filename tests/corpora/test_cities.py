"""The city articles: every gold range, answer and count holds, and no chunk gives its city away by name."""

import json
import re
import warnings
from collections import Counter
from datetime import date
from typing import Any

import pytest

from rag_lab.documents import load_folder
from rag_lab.settings import DATA
from rag_lab.types import Document

FOLDER = DATA / "corpora" / "cities"
RECORDS: list[dict[str, Any]] = [
    json.loads(line) for line in (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
]
WORDS = {"pronoun": r"\b(it|its)\b", "definite noun": r"\bthe (city|capital)\b"}


@pytest.fixture(scope="module")
def articles() -> dict[str, Document]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # questions.jsonl lies in the same folder
        return {document.id: document for document in load_folder(FOLDER)}


def sentences(text: str) -> list[str]:
    """The articles have no abbreviations, so that a full stop before white space ends a sentence."""
    return re.split(r"(?<=\.)\s+", text.strip())


def each(record: dict[str, Any]) -> str:
    return str(record["id"])


def test_there_are_enough_articles_and_questions(articles: dict[str, Document]) -> None:
    assert len(articles) >= 12
    assert "berlin" in articles
    assert len(RECORDS) >= 112
    assert {record["gold"][0]["doc_id"] for record in RECORDS} == set(articles)
    assert min(Counter(record["gold"][0]["doc_id"] for record in RECORDS).values()) >= 7


def test_ids_and_texts_are_unique() -> None:
    assert len({record["id"] for record in RECORDS}) == len(RECORDS)
    assert len({record["text"] for record in RECORDS}) == len(RECORDS)


def test_about_one_question_in_ten_is_a_control_whose_sentence_names_the_city() -> None:
    kinds = Counter(record["reference"] for record in RECORDS)
    assert set(kinds) == {"pronoun", "definite noun", "none"}
    assert 0.05 <= kinds["none"] / len(RECORDS) <= 0.15
    assert min(kinds["pronoun"], kinds["definite noun"]) >= 40


def test_articles_name_their_city_in_the_first_sentence_only(articles: dict[str, Document]) -> None:
    names = [document.title for document in articles.values()]
    for document in articles.values():
        first, *rest = sentences(document.text)
        assert 10 <= len(rest) + 1 <= 12, document.id
        assert document.title in first
        for name in names:
            assert name not in " ".join(rest), f"{document.id} names {name}"


def test_articles_carry_their_metadata(articles: dict[str, Document]) -> None:
    for document in articles.values():
        assert document.uri == f"cities/{document.id}"
        assert str(document.metadata["date"]) == str(date(2026, 11, 29))
        assert document.metadata["language"] == "en"


@pytest.mark.parametrize("record", RECORDS, ids=each)
def test_question_points_at_one_sentence_that_answers_it(
    record: dict[str, Any], articles: dict[str, Document]
) -> None:
    (gold,) = record["gold"]
    article = articles[gold["doc_id"]]
    assert article.text[gold["start"] : gold["end"]] == gold["text"]
    assert gold["text"] in sentences(article.text)
    assert article.text.count(gold["text"]) == 1
    assert any(answer in gold["text"] for answer in record["answers"])
    assert article.title in record["text"]
    assert record["language"] == "en"


@pytest.mark.parametrize("record", RECORDS, ids=each)
def test_reference_is_the_word_that_stands_for_the_city(
    record: dict[str, Any], articles: dict[str, Document]
) -> None:
    text = record["gold"][0]["text"]
    title = articles[record["gold"][0]["doc_id"]].title
    if record["reference"] == "none":
        assert title in text
    else:
        assert title.lower() not in text.lower()
        assert re.search(WORDS[record["reference"]], text, re.IGNORECASE)
    if record["reference"] == "pronoun":
        assert not re.search(WORDS["definite noun"], text, re.IGNORECASE)
