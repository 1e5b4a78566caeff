"""Corpora made by hand, and the published sets where their files are."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rag_lab import datasets, documents
from rag_lab.datasets import load_corpus
from rag_lab.types import GoldSpan

TEXT = "Bern lies on the Aare. 🏔️ It has 134,506 inhabitants.\n"
ANSWER = "134,506"
RECORD: dict[str, Any] = {
    "id": "q1",
    "text": "How many people live in Bern?",
    "answers": [ANSWER, "about 134,500"],
    "gold": [{"doc_id": "bern", "start": TEXT.index(ANSWER), "end": TEXT.index(ANSWER) + 7, "text": ANSWER}],
    "reference": "pronoun",
    "language": "en",
    "note": "fields that nobody asked for are ignored",
}
UNANSWERABLE = RECORD | {"id": "q2", "text": "Who is the mayor of Bern?", "answers": [], "gold": []}


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    (tmp_path / "towns").mkdir()
    (tmp_path / "towns" / "bern.md").write_text(f"---\ntitle: Bern\n---\n\n{TEXT}", encoding="utf-8")
    return tmp_path


def write(corpora: Path, *records: dict[str, Any]) -> None:
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    (corpora / "towns" / "questions.jsonl").write_text(lines, encoding="utf-8")


def test_a_corpus_is_read_with_its_questions(corpora: Path) -> None:
    text = documents.load_folder(corpora / "towns")[0].text
    start = text.index(ANSWER)
    gold = [RECORD["gold"][0] | {"start": start, "end": start + len(ANSWER)}]
    write(corpora, RECORD | {"gold": gold}, UNANSWERABLE)
    corpus = load_corpus("towns", corpora)
    assert (corpus.name, [document.title for document in corpus.documents]) == ("towns", ["Bern"])
    first, second = corpus.questions
    assert first.answers == (ANSWER, "about 134,500")
    assert first.gold == (GoldSpan("bern", start, start + len(ANSWER)),)
    assert (first.reference, first.language) == ("pronoun", "en")
    assert (first.answerable, second.answerable) == (True, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": [{"doc_id": "bern", "start": 0, "end": 4, "text": "Base"}]}, "'Bern', not 'Base'"),
        ({"gold": [{"doc_id": "bern", "start": 4, "end": 4, "text": ""}]}, "not ''"),
        ({"gold": [{"doc_id": "bern", "start": -3, "end": -1, "text": "s."}]}, "-3 to -1"),
        ({"gold": [{"doc_id": "basel", "start": 0, "end": 4, "text": "Base"}]}, "'basel', which is no document"),
        ({"gold": []}, "answers without gold"),
        ({"answers": []}, "gold without answers"),
        ({"answers": "134"}, "answers is '134'; it is a list"),
        ({"answers": ["134", " "]}, "answers is .*; it is a list of texts that are not blank"),
        ({"answers": [134]}, r"answers is \[134\]"),
        ({"text": " "}, "texts that are not blank"),
        ({"gold": [{"doc_id": "bern", "start": "0", "end": 4, "text": "Bern"}]}, "gold is no list of"),
        ({"gold": ["bern"]}, "gold is no list of"),
        ({"kept": "false"}, "kept is 'false'; it is true or false"),
    ],
)
def test_a_question_that_is_not_true_of_its_document_is_named(
    corpora: Path, change: dict[str, Any], message: str
) -> None:
    gold = [{"doc_id": "bern", "start": 0, "end": 4, "text": "Bern"}]
    write(corpora, UNANSWERABLE, RECORD | {"gold": gold} | change)
    with pytest.raises(ValueError, match=f"question 'q1'.*{message}"):
        load_corpus("towns", corpora)


def test_incomplete_and_repeated_questions_are_named(corpora: Path) -> None:
    write(corpora, {key: value for key, value in UNANSWERABLE.items() if key != "language"})
    with pytest.raises(ValueError, match="question 'q2' has no field 'language'"):
        load_corpus("towns", corpora)
    write(corpora, UNANSWERABLE, UNANSWERABLE)
    with pytest.raises(ValueError, match="question 'q2' stands twice"):
        load_corpus("towns", corpora)


def test_a_line_that_is_not_json_is_named_by_its_number(corpora: Path) -> None:
    write(corpora, UNANSWERABLE)
    with open(corpora / "towns" / "questions.jsonl", "a", encoding="utf-8") as file:
        file.write('{"id": \n')
    with pytest.raises(ValueError, match=r"questions\.jsonl, line 2 is not JSON"):
        load_corpus("towns", corpora)
    (corpora / "towns" / "questions.jsonl").write_text("[1]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is no question; give a JSON object"):
        load_corpus("towns", corpora)


def test_questions_as_windows_and_editors_write_them(corpora: Path) -> None:
    write(corpora, UNANSWERABLE)
    path = corpora / "towns" / "questions.jsonl"
    plain = load_corpus("towns", corpora).questions
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert load_corpus("towns", corpora).questions == plain


def test_an_unknown_corpus_is_answered_with_the_known_ones(corpora: Path) -> None:
    write(corpora, UNANSWERABLE)
    with pytest.raises(ValueError, match=r"no corpus 'villages'.*: towns"):
        load_corpus("villages", corpora)


@pytest.mark.parametrize(
    "load",
    [
        datasets.load_scifact,
        datasets.load_nfcorpus,
        datasets.load_codebases,
        datasets.load_nq_oracle,
        datasets.load_kv_pairs,
    ],
)
def test_an_absent_set_is_one_sentence_with_file_address_and_folder(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "chosen"))
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError) as error:
        load()
    message = str(error.value)
    assert str(tmp_path / "chosen") in message
    assert str(tmp_path / "cache") in message
    assert "https://" in message
    assert "python -m rag_lab fetch" in message
    assert "\n" not in message


def test_scifact_with_other_counts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "beir" / "scifact"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "7", "title": "T", "text": "words"}\n', encoding="utf-8")
    (folder / "queries.jsonl").write_text(
        '{"_id": "1", "text": "claim"}\n{"_id": "2", "text": "not judged"}\n', encoding="utf-8"
    )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t7\t1\n", encoding="utf-8")
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"\(1, 1, 1\)"):
        datasets.load_scifact()


@pytest.mark.shared
def test_scifact_as_published(published_data: Path) -> None:
    scifact = datasets.load_scifact()  # its three counts are checked by the loader
    ids = {document.id for document in scifact.documents}
    assert set(scifact.queries) == set(scifact.relevance)
    assert all(set(labels) <= ids and set(labels.values()) == {1} for labels in scifact.relevance.values())


@pytest.mark.shared
def test_codebases_as_published(published_data: Path) -> None:
    codebases = datasets.load_codebases()
    assert (len(codebases.documents), len(codebases.chunks), len(codebases.queries)) == (90, 737, 248)
    texts = {document.id: document.text for document in codebases.documents}
    assert all(chunk.text == texts[chunk.doc_id][chunk.start : chunk.end] for chunk in codebases.chunks)
    ids = {chunk.id for chunk in codebases.chunks}
    assert len(ids) == 737
    assert all(labels and set(labels) <= ids for labels in codebases.relevance.values())
    assert len(set(codebases.queries.values())) == 246  # two stand twice: ids are line numbers


@pytest.mark.shared
def test_lost_in_the_middle_as_published(published_data: Path) -> None:
    oracle = datasets.load_nq_oracle()
    assert (len(oracle.documents), len(oracle.questions)) == (2655, 2655)
    for document, question in zip(oracle.documents, oracle.questions, strict=True):
        assert question.answers
        assert question.gold == (GoldSpan(document.id, 0, len(document.text)),)
    records = datasets.load_kv_pairs()
    assert len(records) == 500
    assert all(len(record.pairs) == 75 and dict(record.pairs)[record.key] == record.value for record in records)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no records"),
        (b"[1]\n", "record 1 has no pairs"),
        (b'{"key": "a", "value": "b"}\n', "record 1 has no pairs"),
        (b'{"ordered_kv_records": [["a", "b"]], "key": "a", "value": "b"}\n', "record 1 is not 140 pairs"),
        (b"{\n", "line 1 is not JSON"),
    ],
)
def test_a_malformed_key_value_file_is_named(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kv-retrieval-140_keys.jsonl.gz"
    path.write_bytes(gzip.compress(content))
    monkeypatch.setattr(datasets, "placed", lambda name: path)
    with pytest.raises(ValueError, match=rf"kv-retrieval-140.*{message}"):
        datasets.load_kv_pairs(140)
    path.write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"kv-retrieval-140.*cannot be read"):
        datasets.load_kv_pairs(140)
