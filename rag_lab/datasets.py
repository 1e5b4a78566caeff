"""The built-in corpora, and published data sets by pinned address with checksum."""

import csv
import gzip
import json
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_lab import settings
from rag_lab.documents import Chunk, Document, load_folder
from rag_lab.downloads import fetch as fetch
from rag_lab.downloads import files_of, placed

CORPORA = settings.DATA / "corpora"
KV_FILE = "kv-retrieval-{}_keys.jsonl.gz"  # of so many pairs


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` (exclusive) of a document's text."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers and the characters that hold them; none of either where nothing answers.

    ``reference`` names what a chunk loses that is cut from its document: pronoun, heading, amount and so on.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[Span, ...]
    reference: str = ""
    language: str = "en"

    @property
    def answerable(self) -> bool:
        """Whether the documents hold an answer."""
        return bool(self.gold)


@dataclass(frozen=True)
class Corpus:
    """Documents and questions about them."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class RetrievalSet:
    """Queries by id, and for each the graded ids: of chunks where the set brings chunks, else of documents."""

    name: str
    documents: tuple[Document, ...]
    queries: Mapping[str, str]
    relevance: Mapping[str, Mapping[str, int]]
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True)
class KeyValueRecord:
    """Pairs of random identifiers in order, and the one of them that is asked for."""

    pairs: tuple[tuple[str, str], ...]
    key: str
    value: str


# The example of Günther et al. 2024 (arXiv 2409.04701, Table 1). Its three sentences are from Wikipedia's article on
# Berlin (CC BY-SA 4.0).
BERLIN = Document(
    "berlin-example",
    "Berlin is the capital and largest city of Germany, both by area and by population. Its more than 3.85 million "
    "inhabitants make it the European Union's most populous city, as measured by population within city limits. The "
    "city is also one of the states of Germany, and is the third smallest state in the country in terms of area.",
    title="Berlin",
    uri="https://en.wikipedia.org/wiki/Berlin",
)


def load_corpus(name: str, folder: Path = CORPORA) -> Corpus:
    """A built-in corpus (``cities``, ``insurance``, ``handbook``): ``NAME/*.md`` and ``NAME/questions.jsonl``.

    Each gold range must hold the text that the question's record gives for it. Raises ValueError naming the question
    where one does not, or where a record is incomplete, repeats an id or has answers without gold.
    """
    path = folder / name / "questions.jsonl"
    if not path.is_file():
        known = ", ".join(sorted(p.parent.name for p in folder.glob("*/questions.jsonl")))
        raise ValueError(f"no corpus {name!r} in {folder}; there are: {known}.")
    with warnings.catch_warnings():
        # The questions stand among the documents; any other file that is skipped is still warned of.
        warnings.filterwarnings("ignore", r"1 of \d+ files .* questions\.jsonl")
        documents = {document.id: document for document in load_folder(path.parent)}
    return Corpus(name, tuple(documents.values()), load_questions(path, list(documents.values())))


def load_questions(path: Path, documents: Sequence[Document]) -> tuple[Question, ...]:
    """Questions about ``documents`` from a file of JSON lines; ValueError as ``load_corpus`` raises it.

    Records with ``"kept": false`` (see ``questions``) are left out.
    """
    by_id = {document.id: document for document in documents}
    questions: dict[str, Question] = {}
    for record in json_lines(path):
        if not isinstance(record, dict):
            raise ValueError(f"{path}: {str(record)[:40]!r} is no question; give a JSON object a line.")
        if not isinstance(kept := record.get("kept", True), bool):
            raise ValueError(f"question {record.get('id')!r}: kept is {kept!r}; it is true or false.")
        if not kept:
            continue
        question = _question(record, by_id)
        if question.id in questions:
            raise ValueError(f"question {question.id!r} stands twice in {path}.")
        questions[question.id] = question
    return tuple(questions.values())


def load_scifact() -> RetrievalSet:
    """SciFact in BEIR's layout (Wadden et al. 2020): 5,183 abstracts, 300 test claims, 339 labels of 1.

    FileNotFoundError where it was not fetched. ValueError for other counts: they are the check, because the files of
    BEIR's archive and those rebuilt from the original tables differ in white space.
    """
    return _load_beir("scifact", (5183, 300, 339))


def load_nfcorpus() -> RetrievalSet:
    """NFCorpus in BEIR's layout (Boteva et al. 2016): 3,633 documents, 323 test queries, 12,334 labels of 1 or 2.

    FileNotFoundError and ValueError as ``load_scifact``.
    """
    return _load_beir("nfcorpus", (3633, 323, 12334))


def _load_beir(name: str, expected: tuple[int, int, int]) -> RetrievalSet:
    corpus, queries, labels = files_of(name)
    documents = tuple(Document(r["_id"], r["text"], title=r["title"]) for r in json_lines(corpus))
    relevance: dict[str, dict[str, int]] = {}
    with open(labels, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            relevance.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    texts = {r["_id"]: r["text"] for r in json_lines(queries) if r["_id"] in relevance}
    counts = (len(documents), len(texts), sum(map(len, relevance.values())))
    if counts != expected:
        raise ValueError(f"{corpus.parent} has {counts} documents, queries and labels, not {expected}.")
    return RetrievalSet(name, documents, texts, relevance)


def load_codebases() -> RetrievalSet:
    """The Anthropic cookbook's code data: 90 files, their 737 chunks, 248 questions with golden chunks.

    Query ids are line numbers from 0, because two of the questions stand twice. The chunks of a file, joined, are the
    file. FileNotFoundError where it was not fetched; ValueError for another checksum.
    """
    files, evaluation = files_of("codebases")
    documents: list[Document] = []
    chunks: list[Chunk] = []
    doc_ids: dict[str, str] = {}
    for record in json.loads(files.read_text(encoding="utf-8")):
        documents.append(Document(record["doc_id"], record["content"]))
        doc_ids[record["original_uuid"]] = record["doc_id"]
        start = 0
        for part in record["chunks"]:
            end = start + len(part["content"])
            chunks.append(Chunk(record["doc_id"], part["original_index"], part["content"], start, end))
            start = end
    queries: dict[str, str] = {}
    relevance: dict[str, dict[str, int]] = {}
    for number, record in enumerate(json_lines(evaluation)):
        queries[str(number)] = record["query"]
        relevance[str(number)] = {f"{doc_ids[uuid]}#{index}": 1 for uuid, index in record["golden_chunk_uuids"]}
    return RetrievalSet("codebases", tuple(documents), queries, relevance, tuple(chunks))


def load_nq_oracle() -> Corpus:
    """Lost in the Middle's 2,655 NaturalQuestions-Open questions (Liu et al. 2023), each with its gold passage.

    Question i's gold is the whole of document i. FileNotFoundError where it was not fetched; ValueError for another
    checksum.
    """
    documents: list[Document] = []
    questions: list[Question] = []
    for number, record in enumerate(json_lines(*files_of("nq-oracle"))):
        (passage,) = record["ctxs"]
        documents.append(Document(f"nq-{number}", passage["text"], title=passage["title"]))
        gold = (Span(f"nq-{number}", 0, len(passage["text"])),)
        questions.append(Question(f"nq-{number}", record["question"], tuple(record["answers"]), gold))
    return Corpus("nq-oracle", tuple(documents), tuple(questions))


def load_kv_pairs(pairs: int = 75) -> tuple[KeyValueRecord, ...]:
    """Lost in the Middle's 500 key-value records of 75, 140 or 300 pairs (Liu et al. 2023, section 3).

    The file of 75 pairs can be fetched; the others are put into a data folder by hand (``downloads.placed``).
    FileNotFoundError where no data folder has the file; ValueError for another checksum than the fetched file's, and
    for a record with another number of pairs.
    """
    name = KV_FILE.format(pairs)
    path = files_of("kv-pairs")[0] if pairs == 75 else placed(name)
    if path is None:
        raise FileNotFoundError(f"{name} is in no data folder: put it there by hand.")
    records = []
    for number, r in enumerate(json_lines(path), 1):
        try:
            record = KeyValueRecord(
                tuple((key, value) for key, value in r["ordered_kv_records"]), r["key"], r["value"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, record {number} has no pairs, key and value ({error!r}).") from error
        known = dict(record.pairs)
        if not len(known) == len(record.pairs) == pairs or known.get(record.key) != record.value:
            raise ValueError(f"{path}, record {number} is not {pairs} pairs of which one is asked for.")
        records.append(record)
    if not records:
        raise ValueError(f"{path} holds no records.")
    return tuple(records)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of one JSON object a line, packed by gzip or not.

    ValueError naming the file, and the line, for what is no such file.
    """
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
            for line in file:
                number += 1
                if line.strip():
                    yield json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {number} is not JSON: {error}.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read after line {number}: {error}. Fetch it again.") from error


def _question(record: Mapping[str, Any], documents: Mapping[str, Document]) -> Question:
    name = f"question {record.get('id')!r}"
    try:
        if not all(isinstance(record[key], str) and record[key].strip() for key in ("id", "text")):
            raise ValueError(f"{name}: id and text ({record['text']!r}) are to be texts that are not blank.")
        answers = record["answers"]  # a bare string would be taken for a list of its characters
        if not isinstance(answers, list) or not all(isinstance(a, str) and a.strip() for a in answers):
            raise ValueError(f"{name}: answers is {answers!r}; it is a list of texts that are not blank.")
        for gold in record["gold"]:
            if gold["doc_id"] not in documents:
                raise ValueError(f"{name} has gold in {gold['doc_id']!r}, which is no document of the corpus.")
            held = documents[gold["doc_id"]].text[gold["start"] : gold["end"]]
            if gold["start"] < 0 or not held or held != gold["text"]:
                raise ValueError(
                    f"{name}: characters {gold['start']} to {gold['end']} of {gold['doc_id']!r} are {held!r}, "
                    f"not {gold['text']!r}."
                )
        if bool(answers) != bool(record["gold"]):
            raise ValueError(f"{name} has answers without gold, or gold without answers.")
        return Question(
            record["id"],
            record["text"],
            tuple(answers),
            tuple(Span(gold["doc_id"], gold["start"], gold["end"]) for gold in record["gold"]),
            record["reference"],
            record["language"],
        )
    except KeyError as error:
        raise ValueError(f"{name} has no field {error}.") from error
    except TypeError as error:
        raise ValueError(f'{name}: gold is no list of {{"doc_id": …, "start": …, "end": …, "text": …}}.') from error
