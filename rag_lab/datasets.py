"""The built-in corpora, and published data sets: pinned addresses, checked downloads, loaders."""

import csv
import gzip
import hashlib
import json
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from rag_lab import settings
from rag_lab.documents import load_folder
from rag_lab.storage import write_atomic
from rag_lab.types import Chunk, Corpus, Document, GoldSpan, Question, RetrievalSet

CORPORA = settings.DATA / "corpora"
KV_FILE = "kv-retrieval-{}_keys.jsonl.gz"  # the number of pairs


@dataclass(frozen=True)
class KeyValueRecord:
    """Pairs of random identifiers in order, and the pair that the question is about."""

    pairs: tuple[tuple[str, str], ...]
    key: str
    value: str


# The example of Günther et al. 2024 (arXiv 2409.04701, Table 1): three sentences from Wikipedia's article on Berlin
# (CC BY-SA 4.0).
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

    Raises ValueError, with the question's id, if a gold range does not hold the text that its record states, or if a
    record is incomplete, repeats an id or has answers without gold.
    """
    path = folder / name / "questions.jsonl"
    if not path.is_file():
        known = ", ".join(sorted(p.parent.name for p in folder.glob("*/questions.jsonl")))
        raise ValueError(f"no corpus {name!r} in {folder}; the corpora are: {known}.")
    with warnings.catch_warnings():
        # The questions lie among the documents; other skipped files still cause the warning.
        warnings.filterwarnings("ignore", r"1 of \d+ files .* questions\.jsonl")
        documents = tuple(load_folder(path.parent))
    return Corpus(name, documents, load_questions(path, documents))


def load_questions(path: Path, documents: Sequence[Document]) -> tuple[Question, ...]:
    """Questions about ``documents`` from a JSON Lines file. Raises ValueError as ``load_corpus`` does.

    Skips records with ``"kept": false`` (see ``evaluation.questions``).
    """
    by_id = {document.id: document for document in documents}
    questions: dict[str, Question] = {}
    for record in json_lines(path):
        if not isinstance(record, dict):
            raise ValueError(f"{path}: {str(record)[:40]!r} is not a question; give one JSON object per line.")
        if not isinstance(kept := record.get("kept", True), bool):
            raise ValueError(f"question {record.get('id')!r}: kept is {kept!r}; set it to true or false.")
        if not kept:
            continue
        question = _question(record, by_id)
        if question.id in questions:
            raise ValueError(f"question {question.id!r} occurs twice in {path}.")
        questions[question.id] = question
    return tuple(questions.values())


def load_scifact() -> RetrievalSet:
    """SciFact in BEIR's layout (Wadden et al. 2020): 5,183 abstracts, 300 test claims, 339 labels of 1.

    Raises FileNotFoundError if it was not fetched, ValueError if the counts differ. Only the counts are checked,
    because files rebuilt from the original tables differ in white space.
    """
    return _load_beir("scifact", (5183, 300, 339))


def load_nfcorpus() -> RetrievalSet:
    """NFCorpus in BEIR's layout (Boteva et al. 2016): 3,633 documents, 323 test queries, 12,334 labels of 1 or 2.

    Raises FileNotFoundError and ValueError as ``load_scifact`` does.
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

    Query ids are line numbers from 0, because two questions occur twice. The joined chunks of a file are the file.
    Raises FileNotFoundError if it was not fetched, ValueError if a checksum differs.
    """
    files, evaluation = files_of("codebases")
    records = json.loads(files.read_text(encoding="utf-8"))
    documents = tuple(Document(record["doc_id"], record["content"]) for record in records)
    doc_ids = {record["original_uuid"]: record["doc_id"] for record in records}
    chunks: list[Chunk] = []
    for record in records:
        start = 0
        for part in record["chunks"]:
            end = start + len(part["content"])
            chunks.append(Chunk(record["doc_id"], part["original_index"], part["content"], start, end))
            start = end
    queries, relevance = {}, {}
    for number, record in enumerate(json_lines(evaluation)):
        queries[str(number)] = record["query"]
        relevance[str(number)] = {f"{doc_ids[uuid]}#{index}": 1 for uuid, index in record["golden_chunk_uuids"]}
    return RetrievalSet("codebases", documents, queries, relevance, tuple(chunks))


def load_nq_oracle() -> Corpus:
    """Lost in the Middle's 2,655 NaturalQuestions-Open questions (Liu et al. 2023), each with its gold passage.

    Question i's gold is the whole of document i. Raises FileNotFoundError if it was not fetched, ValueError if the
    checksum differs.
    """
    documents, questions = [], []
    for number, record in enumerate(json_lines(*files_of("nq-oracle"))):
        name, (passage,) = f"nq-{number}", record["ctxs"]
        documents.append(Document(name, passage["text"], title=passage["title"]))
        gold = (GoldSpan(name, 0, len(passage["text"])),)
        questions.append(Question(name, record["question"], tuple(record["answers"]), gold))
    return Corpus("nq-oracle", tuple(documents), tuple(questions))


def load_kv_pairs(pairs: int = 75) -> tuple[KeyValueRecord, ...]:
    """Lost in the Middle's 500 key-value records of 75, 140 or 300 pairs (Liu et al. 2023, section 3).

    The file of 75 pairs can be fetched; put the others into a data folder by hand (see ``placed``). Raises
    FileNotFoundError if no data folder has the file, ValueError if its checksum or its number of pairs differs.
    """
    name = KV_FILE.format(pairs)
    path = files_of("kv-pairs")[0] if pairs == 75 else placed(name)
    if path is None:
        raise FileNotFoundError(f"{name} is in no data folder; put it there by hand.")
    records = []
    for number, r in enumerate(json_lines(path), 1):
        try:
            record = KeyValueRecord(tuple((k, v) for k, v in r["ordered_kv_records"]), r["key"], r["value"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, record {number} has no pairs, key and value ({error!r}).") from error
        known = dict(record.pairs)
        if not len(known) == len(record.pairs) == pairs or known.get(record.key) != record.value:
            raise ValueError(f"{path}, record {number} does not have {pairs} pairs, its key and value among them.")
        records.append(record)
    if not records:
        raise ValueError(f"{path} holds no records.")
    return tuple(records)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSON Lines file, compressed by gzip if its name ends in ``.gz``.

    Raises ValueError with file and line if it is not JSON Lines.
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
    spans = []
    try:
        texts, answers = (record["id"], record["text"]), record["answers"]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise ValueError(f"{name}: id and text ({record['text']!r}) must be strings that are not blank.")
        if not isinstance(answers, list) or not all(isinstance(a, str) and a.strip() for a in answers):
            raise ValueError(f"{name}: answers is {answers!r}; give a list of strings that are not blank.")
        for span in record["gold"]:
            start, end, doc_id = span["start"], span["end"], span["doc_id"]
            if doc_id not in documents:
                raise ValueError(f"{name} has gold in {doc_id!r}, which is not a document of the corpus.")
            found = documents[doc_id].text[start:end]
            if start < 0 or not found or found != span["text"]:
                raise ValueError(
                    f"{name}: characters {start} to {end} of {doc_id!r} are {found!r}, not {span['text']!r}."
                )
            spans.append(GoldSpan(doc_id, start, end))
        if bool(answers) != bool(spans):
            raise ValueError(f"{name} has answers without gold, or gold without answers.")
        return Question(*texts, tuple(answers), tuple(spans), record["reference"], record["language"])
    except KeyError as error:
        raise ValueError(f"{name} has no field {error}.") from error
    except TypeError as error:
        fields = '{"doc_id": …, "start": …, "end": …, "text": …}'
        raise ValueError(f"{name}: gold is not a list of {fields}.") from error


# Downloads


@dataclass(frozen=True)
class Download:
    """An address, the digest of its content ("algorithm:hexadecimal"), and the files that it gives in a data folder.

    One file or, if the address ends in ``.zip``, members of the archive: ``beir/scifact/…`` is its ``scifact/…``.
    """

    address: str
    digest: str
    files: tuple[str, ...]

    @property
    def is_archive(self) -> bool:
        """Whether the address serves a zip archive, whose members have no digests of their own."""
        return self.address.endswith(".zip")


DOWNLOADS = {
    name: tuple(Download(source["address"], source["digest"], tuple(source["files"])) for source in sources)
    for name, sources in yaml.safe_load((settings.DATA / "downloads.yaml").read_text(encoding="utf-8")).items()
}


def fetch(name: str) -> list[Path]:
    """The files of a published set (a name in ``DOWNLOADS``); downloads to the cache what no data folder has.

    Raises FileNotFoundError with file, address and folder if the address cannot be reached, ValueError if the name is
    unknown or a checksum differs.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"no published data set {name!r}; the names are: {', '.join(DOWNLOADS)}.")
    return [path for source in DOWNLOADS[name] for path in _find(source) or _download(source)]


def files_of(name: str) -> list[Path]:
    """The files of a published set, without downloading.

    Raises FileNotFoundError, with the remedy, if no data folder has them, ValueError if a checksum differs.
    """
    paths: list[Path] = []
    for source in DOWNLOADS[name]:
        found = _find(source)
        if not found:
            folders = " or ".join(map(str, settings.published_data_folders()))
            raise FileNotFoundError(
                f"{source.files[0]} is not in {folders}: run `python -m rag_lab fetch {name}`, which downloads it "
                f"from {source.address}, or set RAG_LAB_DATA to a folder that has it."
            )
        paths += found
    return paths


def placed(name: str) -> Path | None:
    """A file of Lost in the Middle's repository that somebody put into ``lost-in-the-middle`` in a data folder.

    It may lie deeper, as in a clone. None if there is none. Nothing downloads these files: their digests are unknown.
    """
    folders = [folder / "lost-in-the-middle" for folder in settings.published_data_folders()]
    return next((path for folder in folders for path in sorted(folder.rglob(name))), None)


def _find(source: Download) -> list[Path]:
    """The files in the first data folder that has all of them; none if no folder does."""
    for folder in settings.published_data_folders():
        paths = [folder / file for file in source.files]
        if all(path.is_file() for path in paths):
            algorithm, digest = source.digest.split(":")
            if not source.is_archive and hashlib.new(algorithm, paths[0].read_bytes()).hexdigest() != digest:
                raise ValueError(
                    f"{paths[0]} does not have the digest {source.digest}; delete it and fetch it again."
                )
            return paths
    return []


def _download(source: Download) -> list[Path]:
    import pooch

    folder = settings.published_data_folders()[-1]
    top = folder / PurePosixPath(source.files[0]).parts[0]
    file = source.address.rsplit("/", 1)[-1]
    try:
        target = Path(pooch.retrieve(source.address, source.digest, file, top, progressbar=True))
    except OSError as error:  # requests raises these
        raise FileNotFoundError(
            f"{source.files[0]} is in no data folder, and downloading {source.address} failed ({error}); fetch it "
            f"where the network allows, or put it into {folder} by hand."
        ) from error
    paths = [folder / file for file in source.files]
    if source.is_archive:
        try:
            with zipfile.ZipFile(target) as archive:
                for path in paths:
                    write_atomic(path, archive.read(path.relative_to(top).as_posix()))
        except (zipfile.BadZipFile, KeyError) as error:
            target.unlink()
            raise ValueError(f"{source.address} gives no archive with {source.files[0]} ({error}).") from error
        target.unlink()
    return paths
