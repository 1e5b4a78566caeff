"""The insurance corpus: every range, answer and count holds; the Persian documents say what the English ones do."""

import json
import re
from collections import Counter
from fractions import Fraction

import pytest

from rag_lab.datasets import CORPORA, load_corpus
from rag_lab.types import Document

FOLDER = CORPORA / "insurance"
LINES = {"household", "motor", "travel", "liability", "legal", "pet", "bicycle", "building", "all"}
LINE_NAMES = re.compile(
    r"household|motor|travel|liability|legal|\bpets?\b|bicycle|building|اثاثیه|مسافرت|حیوانات خانگی", re.I
)
KINDS = {"conditions", "circular", "amendment"}
REFERENCES = {"pronoun", "definite noun", "amount", "heading", "none"}
PERSIAN = re.compile(r"[\u0600-\u06ff]")

# What an amendment says, and by what it multiplies the figure that it amends.
FACTORS = [
    (r"raised to double|doubled", Fraction(2)),
    (r"tripled", Fraction(3)),
    (r"halved|to half", Fraction(1, 2)),
    (r"raised by (a further )?half", Fraction(3, 2)),
    (r"raised by a quarter", Fraction(5, 4)),
    (r"raised by a third", Fraction(4, 3)),
    (r"(shortened|reduced) by a quarter", Fraction(3, 4)),
    (r"(shortened|reduced) by a third", Fraction(2, 3)),
    (r"به دو برابر افزایش", Fraction(2)),
    (r"نصف", Fraction(1, 2)),
    (r"یک‌ونیم برابر افزایش", Fraction(3, 2)),
    (r"یک‌چهارم افزایش", Fraction(5, 4)),
    (r"یک‌چهارم کوتاه", Fraction(3, 4)),
    (r"یک‌سوم کوتاه", Fraction(2, 3)),
]


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return {document.id: document for document in load_corpus("insurance").documents}


@pytest.fixture(scope="module")
def records() -> list[dict]:
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def plain(text: str) -> str:
    """Persian digits as ASCII, no thousands separators, "€5" as "5 euros"."""
    text = text.translate(str.maketrans("۰۱۲۳۴۵۶۷۸۹٬", "0123456789,"))
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    return re.sub(r"€(\d+)", r"\1 euros", text)


def numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]+", plain(text))]


def test_counts(documents: dict[str, Document], records: list[dict]) -> None:
    languages = Counter(document.metadata["language"] for document in documents.values())
    assert languages == {"en": 22, "fa": 6}
    assert Counter(record["language"] for record in records) == {"en": 116, "fa": 20}
    assert len({record["id"] for record in records}) == len(records)
    assert len({record["text"] for record in records}) == len(records)
    assert {record["reference"] for record in records} == REFERENCES
    control = sum(record["reference"] == "none" for record in records)
    assert 0 < control < len(records) / 10


def test_documents_are_described(documents: dict[str, Document]) -> None:
    for document in documents.values():
        facts = document.metadata
        line = "claims" if facts["line"] == "all" else facts["line"]
        assert facts["kind"] in KINDS
        suffix = "-fa" if facts["language"] == "fa" else ""
        assert document.id == f"{line}-{facts['kind']}-{facts['year']}{suffix}"
        assert facts["year"] in numbers(document.title)
        assert facts["year"] in numbers(document.text.split("\n", 1)[0]), "the opening paragraph names the year"
        assert document.uri.startswith("insurance/")
        assert 150 <= len(document.text.split()) <= 500
    assert {document.metadata["line"] for document in documents.values()} == LINES
    assert {document.metadata["year"] for document in documents.values()} == set(range(2017, 2027))


def test_every_gold_range_is_one_sentence_that_stands_once_in_its_document(
    documents: dict[str, Document], records: list[dict]
) -> None:
    for record in records:
        assert record["gold"], record["id"]
        for gold in record["gold"]:
            document = documents[gold["doc_id"]]
            assert document.text[gold["start"] : gold["end"]] == gold["text"], record["id"]
            assert document.text.count(gold["text"]) == 1, record["id"]
            assert document.metadata["language"] == record["language"], record["id"]
            assert re.fullmatch(r"(?:[^.\n]|\.(?!\s))+\.", gold["text"]), record["id"]


def test_every_answer_stands_in_a_gold_text_or_is_computed(records: list[dict]) -> None:
    for record in records:
        golds = [plain(gold["text"]) for gold in record["gold"]]
        for answer in map(plain, record["answers"]):
            if record["language"] == "fa":
                assert answer == plain(record["answers"][0]), "the forms differ in their digits only"
            stands = any(re.search(rf"(?<!\d){re.escape(answer)}", gold) for gold in golds)
            assert stands != record.get("computed", False), (record["id"], answer)


def test_computed_answers_follow_from_the_gold_texts(records: list[dict]) -> None:
    """The last gold text states the base figure; each before it changes it by the factor that its words name."""
    computed = [record for record in records if record.get("computed")]
    assert len(computed) == 68
    for record in computed:
        *amendments, base = [gold["text"] for gold in record["gold"]]
        factor = Fraction(1)
        for text in amendments:
            (change,) = [value for words, value in FACTORS if re.search(words, text)]
            factor *= change
        assert factor != 1, record["id"]
        for answer in record["answers"]:
            assert numbers(answer)[0] in {number * factor for number in numbers(base)}, record["id"]


def test_what_the_reference_points_to_is_not_in_the_sentence(records: list[dict]) -> None:
    for record in records:
        sentence = record["gold"][0]["text"]
        if record["reference"] in ("amount", "heading"):
            assert not LINE_NAMES.search(sentence), (record["id"], "the sentence names its line of insurance")
        if record["reference"] == "amount":
            assert record.get("computed"), (record["id"], "the sentence names its amount")


def test_persian_documents_have_the_same_numbers_as_the_english(documents: dict[str, Document]) -> None:
    persian = [document for document in documents.values() if document.metadata["language"] == "fa"]
    for document in persian:
        english = documents[document.id.removesuffix("-fa")]
        for key in ("date", "line", "year", "kind"):
            assert document.metadata[key] == english.metadata[key], (document.id, key)
        assert sorted(numbers(document.title)) == sorted(numbers(english.title))
        pairs = zip(document.text.splitlines(), english.text.splitlines(), strict=True)
        for ours, theirs in pairs:  # line by line: the order within a line differs between the languages
            assert sorted(numbers(ours)) == sorted(numbers(theirs)), (document.id, ours)


def test_persian_is_written_in_persian_letters_and_digits(
    documents: dict[str, Document], records: list[dict]
) -> None:
    texts = [d.text + d.title for d in documents.values() if d.metadata["language"] == "fa"]
    texts += [record["text"] for record in records if record["language"] == "fa"]
    for text in texts:
        assert PERSIAN.search(text)
        assert not re.search(r"[يك٠-٩0-9A-Za-z]", text), "Arabic or Latin letters or digits"
        assert not re.search("\u200c\\s|\\s\u200c|\u200c\u200c", text), "a non-joiner joins two parts of a word"
        assert not re.search(r"(?<!\u200c)\s(ها|های|هایی)\s", text), "a plural ending stands apart from its word"
    for document in documents.values():
        if document.metadata["language"] == "en":
            assert not PERSIAN.search(document.text)


def test_look_alike_clauses_are_shared_by_several_documents(documents: dict[str, Document]) -> None:
    """What makes the corpus hard: sentences that only their document and heading tell apart."""
    for sentence in ("The deductible is 150 euros per claim.", "This amount was raised to double."):
        assert sum(sentence in document.text for document in documents.values()) >= 3
