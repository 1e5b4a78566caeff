"""The staff handbook holds what its questions say: ranges, answers, counts, telephone numbers, absent topics."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from rag_lab.chunking import chunk_chars, chunk_paragraphs
from rag_lab.datasets import CORPORA, load_corpus
from rag_lab.types import Document

FOLDER = CORPORA / "handbook"
RECORDS = [json.loads(line) for line in (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
ANSWERABLE = [record for record in RECORDS if record["gold"]]
UNANSWERABLE = [record for record in RECORDS if not record["gold"]]
REFERENCES = {"pronoun", "definite noun", "heading", "exception", "none"}
# Ofcom keeps these two ranges for drama: 020 7946 0000 to 0999 and 07700 900000 to 900999.
FICTIONAL_NUMBER = re.compile(r"\+44 20 7946 0\d{3}\b|\+44 7700 900\d{3}\b")


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return {document.id: document for document in load_corpus("handbook").documents}


def test_counts(documents: dict[str, Document]) -> None:
    assert 12 <= len(documents) <= 16
    assert len(ANSWERABLE) >= 44
    assert len(UNANSWERABLE) >= 44
    assert [record["id"] for record in RECORDS] == [f"handbook-{n:03d}" for n in range(1, len(RECORDS) + 1)]
    assert len({record["text"].casefold() for record in RECORDS}) == len(RECORDS)
    assert {record["language"] for record in RECORDS} == {"en"}
    # Every document is asked about, and every kind of lost reference occurs often enough to be reported.
    assert {span["doc_id"] for record in ANSWERABLE for span in record["gold"]} == set(documents)
    kinds = Counter(record["reference"] for record in ANSWERABLE)
    assert set(kinds) == REFERENCES
    assert min(kinds.values()) >= 5


def test_documents_are_dated_and_of_moderate_length(documents: dict[str, Document]) -> None:
    for document in documents.values():
        assert 150 <= len(document.text.split()) <= 600, document.id
        assert document.text.startswith("# "), document.id
        assert document.title, document.id
        assert document.uri.startswith("handbook/"), document.id
        assert document.metadata["language"] == "en", document.id
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", str(document.metadata["date"])), document.id
    assert len({document.uri for document in documents.values()}) == len(documents)


@pytest.mark.parametrize("record", ANSWERABLE, ids=lambda record: record["id"])
def test_gold_holds_an_accepted_answer(record: dict[str, Any], documents: dict[str, Document]) -> None:
    for span in record["gold"]:
        text = documents[span["doc_id"]].text
        assert text[span["start"] : span["end"]] == span["text"]
        assert text.count(span["text"]) == 1
    gold = " ".join(span["text"] for span in record["gold"]).casefold()
    found = [answer for answer in record["answers"] if re.search(rf"(?<!\w){re.escape(answer.casefold())}", gold)]
    assert found, record["answers"]
    if record.get("polar"):
        assert record["answers"][0] in ("yes", "no")
        assert any(len(answer) > 3 for answer in found), "a polar question also needs a phrase of its gold text"


@pytest.mark.parametrize("record", UNANSWERABLE, ids=lambda record: record["id"])
def test_absent_words_occur_in_no_document(record: dict[str, Any]) -> None:
    assert record["answers"] == []
    assert record["reference"] == "unanswerable"
    assert record["absent"]
    for path in FOLDER.glob("*.md"):  # the whole file: a title or an owner could answer as well
        text = path.read_text(encoding="utf-8").casefold()
        for word in record["absent"]:
            assert word.casefold() not in text, f"{word!r} stands in {path.name}"


def test_both_polar_answers_and_the_dress_code_occur() -> None:
    polar = Counter(record["answers"][0] for record in ANSWERABLE if record.get("polar"))
    assert polar["yes"] >= 10, "a model that always says no must not do well"
    assert polar["no"] >= 10
    assert "Is there a dress code?" in {record["text"] for record in UNANSWERABLE}


def test_telephone_numbers_are_distinct_and_fictional(documents: dict[str, Document]) -> None:
    texts = [document.text for document in documents.values()]
    numbers = [number for text in texts for number in FICTIONAL_NUMBER.findall(text)]
    assert len(numbers) == len(set(numbers))
    assert len(numbers) == sum(text.count("+44") for text in texts)
    # 34 desks, 26 mobiles, and the lines of Heron support, the service desk and the travel office.
    assert len(numbers) == 34 + 26 + 3
    addresses = [address for text in texts for address in re.findall(r"\S+@(\S+\w)", text)]
    assert set(addresses) == {"example.com"}


@pytest.mark.parametrize("overlap", [0, 20])
def test_raw_cutting_parts_a_number_from_its_name(overlap: int, documents: dict[str, Document]) -> None:
    # A. Meyer's mobile number (Development), pieces of 200 characters: a piece ends inside the number, and none
    # holds the name with the whole number, although the overlap is longer than the number. Paragraphs keep both.
    line, number = "A. Meyer: desk +44 20 7946 0277, mobile +44 7700 900218", "+44 7700 900218"
    document = documents["telephone-list"]
    start, end = document.text.index(number), document.text.index(number) + len(number)
    pieces = chunk_chars(document, size=200, overlap=overlap)
    assert any(start < piece.end < end for piece in pieces)
    assert not any(line in piece.text for piece in pieces)
    assert any(line in paragraph.text for paragraph in chunk_paragraphs(document))
