"""Handmade corpora, downloads from a loopback server, and the published sets if their files are there."""

import gzip
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rag_lab import datasets, documents
from rag_lab.datasets import DOWNLOADS, Download, fetch, files_of, load_corpus
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
    "note": "other fields are ignored",
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
        ({"gold": [{"doc_id": "basel", "start": 0, "end": 4, "text": "Base"}]}, "'basel', which is not a document"),
        ({"gold": []}, "answers without gold"),
        ({"answers": []}, "gold without answers"),
        ({"answers": "134"}, "answers is '134'; give a list"),
        ({"answers": ["134", " "]}, "answers is .*; give a list of strings that are not blank"),
        ({"answers": [134]}, r"answers is \[134\]"),
        ({"text": " "}, "must be strings that are not blank"),
        ({"gold": [{"doc_id": "bern", "start": "0", "end": 4, "text": "Bern"}]}, "gold is not a list of"),
        ({"gold": ["bern"]}, "gold is not a list of"),
        ({"kept": "false"}, "kept is 'false'; set it to true or false"),
    ],
)
def test_a_question_that_its_document_contradicts_is_named(
    corpora: Path, change: dict[str, Any], message: str
) -> None:
    gold = [{"doc_id": "bern", "start": 0, "end": 4, "text": "Bern"}]
    write(corpora, UNANSWERABLE, RECORD | {"gold": gold} | change)
    with pytest.raises(ValueError, match=f"question 'q1'.*{message}"):
        load_corpus("towns", corpora)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([json.dumps({k: v for k, v in UNANSWERABLE.items() if k != "language"})], "'q2' has no field 'language'"),
        ([json.dumps(UNANSWERABLE)] * 2, "question 'q2' occurs twice"),
        ([json.dumps(UNANSWERABLE), '{"id": '], r"questions\.jsonl, line 2 is not JSON"),
        (["[1]"], "is not a question; give one JSON object"),
    ],
)
def test_incomplete_repeated_and_malformed_questions_are_named(corpora: Path, lines: list[str], message: str) -> None:
    (corpora / "towns" / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_corpus("towns", corpora)


def test_questions_as_windows_and_editors_write_them(corpora: Path) -> None:
    write(corpora, UNANSWERABLE)
    path = corpora / "towns" / "questions.jsonl"
    plain = load_corpus("towns", corpora).questions
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert load_corpus("towns", corpora).questions == plain


def test_an_unknown_corpus_raises_with_the_known_names(corpora: Path) -> None:
    write(corpora, UNANSWERABLE)
    with pytest.raises(ValueError, match=r"no corpus 'villages'.*: towns"):
        load_corpus("villages", corpora)


@pytest.mark.parametrize("name", ["scifact", "nfcorpus", "codebases", "nq_oracle", "kv_pairs"])
def test_an_absent_set_is_one_sentence_with_file_address_and_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "chosen"))
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError) as error:
        getattr(datasets, f"load_{name}")()
    parts = (str(tmp_path / "chosen"), str(tmp_path / "cache"), "https://", "python -m rag_lab fetch")
    assert all(part in str(error.value) for part in parts)
    assert "\n" not in str(error.value)


def test_scifact_with_other_counts_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "beir" / "scifact"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "7", "title": "T", "text": "words"}\n', encoding="utf-8")
    queries = '{"_id": "1", "text": "claim"}\n{"_id": "2", "text": "not judged"}\n'
    (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
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
    assert len(set(codebases.queries.values())) == 246  # two occur twice: ids are line numbers


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
        (b'{"ordered_kv_records": [["a", "b"]], "key": "a", "value": "b"}\n', "record 1 does not have 140 pairs"),
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


# Downloads

BODY = bytes(range(256)) * 1000


class Server(ThreadingHTTPServer):
    """Serves ``body`` at every path but /absent; ``stop_after`` cuts answers short."""

    body = BODY
    stop_after: int | None = None

    def __init__(self) -> None:
        self.paths: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def download(self, name: str = "file.bin", files: tuple[str, ...] = ("set/file.bin",), **change: str) -> Download:
        digest = f"sha256:{hashlib.sha256(self.body).hexdigest()}"
        return Download(f"http://127.0.0.1:{self.server_port}/{name}", change.get("digest", digest), files)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.path == "/absent":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body[: self.server.stop_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder inside an empty cache, without RAG_LAB_DATA."""
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RAG_LAB_DATA", raising=False)
    return tmp_path / "cache" / "data"


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_fetch_downloads_once_into_the_cache(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DOWNLOADS, "set", (server.download(),))
    with pytest.raises(FileNotFoundError, match=r"set/file\.bin"):
        files_of("set")
    assert server.paths == []  # reading never downloads
    assert fetch("set") == [cache / "set" / "file.bin"]
    assert fetch("set") == files_of("set") == [cache / "set" / "file.bin"]
    assert len(server.paths) == 1
    assert (cache / "set" / "file.bin").read_bytes() == BODY
    assert files_below(cache) == {cache / "set" / "file.bin"}


def test_fetch_unpacks_an_archive_and_removes_it(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mini/corpus.jsonl", "{}")
        archive.writestr("mini/qrels/test.tsv", "query-id\n")
        archive.writestr("mini/qrels/train.tsv", "not needed")
    server.body = packed.getvalue()
    files = ("beir/mini/corpus.jsonl", "beir/mini/qrels/test.tsv")
    md5 = f"md5:{hashlib.md5(server.body).hexdigest()}"
    monkeypatch.setitem(DOWNLOADS, "mini", (server.download("mini.zip", files, digest=md5),))
    corpus, labels = fetch("mini")
    assert (corpus.read_text(encoding="utf-8"), labels.read_text(encoding="utf-8")) == ("{}", "query-id\n")
    assert files_below(cache) == {corpus, labels}


@pytest.mark.parametrize("fault", ["unreachable", "absent", "cut short"])
def test_a_failed_download_says_file_address_and_folder_and_leaves_nothing(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    source = server.download("absent" if fault == "absent" else "file.bin")
    if fault == "unreachable":
        source = Download("http://127.0.0.1:9/file.bin", source.digest, source.files)
    monkeypatch.setitem(DOWNLOADS, "set", (source,))
    server.stop_after = 100_000 if fault == "cut short" else None
    with pytest.raises(FileNotFoundError) as error:
        fetch("set")
    assert all(part in str(error.value) for part in ("set/file.bin", source.address, str(cache)))
    assert "\n" not in str(error.value)
    assert files_below(cache) == set()


def test_a_download_with_another_digest_raises_and_leaves_nothing(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = f"sha256:{hashlib.sha256(b'other').hexdigest()}"
    monkeypatch.setitem(DOWNLOADS, "set", (server.download(digest=digest),))
    with pytest.raises(ValueError, match=r"file\.bin.* does not match the known hash"):
        fetch("set")
    assert files_below(cache) == set()


def test_the_chosen_folder_goes_before_the_cache_and_is_checked(
    server: Server, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOWNLOADS, "set", (server.download(files=("file.bin",)),))
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "chosen"))
    for folder in (cache, tmp_path / "chosen"):
        folder.mkdir(parents=True)
        (folder / "file.bin").write_bytes(BODY)
    assert files_of("set") == [tmp_path / "chosen" / "file.bin"]
    (tmp_path / "chosen" / "file.bin").write_bytes(b"changed")
    for look in (files_of, fetch):
        with pytest.raises(ValueError, match="does not have the digest"):
            look("set")


def test_an_unknown_set_raises_with_the_known_names() -> None:
    with pytest.raises(ValueError, match=r"'sciFact'.*scifact, nfcorpus, codebases, nq-oracle, kv-pairs"):
        fetch("sciFact")


def test_every_address_is_pinned() -> None:
    for source in (source for sources in DOWNLOADS.values() for source in sources):
        algorithm, digest = source.digest.split(":")
        assert len(bytes.fromhex(digest)) == {"sha256": 32, "md5": 16}[algorithm]
        assert source.address.startswith("https://")
        assert source.is_archive or len(source.files) == 1
