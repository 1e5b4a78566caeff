"""The built-in corpora, and published data sets by pinned address with checksum.

Published data sets: their pinned addresses, and downloads that are checked, resumed and put in place whole.
"""

import csv
import gzip
import hashlib
import json
import os
import urllib.error
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any

from rag_lab import settings
from rag_lab.documents import load_folder
from rag_lab.types import Chunk, Corpus, Document, GoldSpan, Question, RetrievalSet

CORPORA = settings.DATA / "corpora"
KV_FILE = "kv-retrieval-{}_keys.jsonl.gz"  # of so many pairs


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
        gold = (GoldSpan(f"nq-{number}", 0, len(passage["text"])),)
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
            tuple(GoldSpan(gold["doc_id"], gold["start"], gold["end"]) for gold in record["gold"]),
            record["reference"],
            record["language"],
        )
    except KeyError as error:
        raise ValueError(f"{name} has no field {error}.") from error
    except TypeError as error:
        raise ValueError(f'{name}: gold is no list of {{"doc_id": …, "start": …, "end": …, "text": …}}.') from error


TIMEOUT = 30  # seconds without a byte


@dataclass(frozen=True)
class Download:
    """What an address serves, its digest ("algorithm:hexadecimal"), and the files it gives in the data folder.

    One file, or the members that a zip archive is unpacked to: ``beir/scifact/…`` is the archive's ``scifact/…``.
    """

    address: str
    digest: str
    files: tuple[str, ...]

    @property
    def is_archive(self) -> bool:
        """Whether the address serves a zip archive; its files have no digest of their own."""
        return self.address.endswith(".zip")


_BEIR = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
_COOKBOOK = (
    "https://raw.githubusercontent.com/anthropics/anthropic-cookbook/4b36a1e1f64361397f4cbe4fbc7cdace338f16f8"
    "/skills/contextual-embeddings/data"
)
_LOST_IN_THE_MIDDLE = (
    "https://raw.githubusercontent.com/nelson-liu/lost-in-the-middle/29b8a6d042ce29abccee3db1a73171a107d7e6af"
)


def _beir(name: str, md5: str) -> Download:
    files = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
    return Download(f"{_BEIR}/{name}.zip", f"md5:{md5}", tuple(f"beir/{name}/{file}" for file in files))


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    # The digests of the archives are those of BEIR's own table of data sets.
    "scifact": (_beir("scifact", "5f7d1de60b170fc8027bb7898e2efca1"),),
    "nfcorpus": (_beir("nfcorpus", "a89dba18a62ef92f7d323ec890a0d38d"),),
    "codebases": (
        Download(
            f"{_COOKBOOK}/codebase_chunks.json",
            "sha256:70dbed1cb8a90a107b23742b1537051346860f841ec8b03734c1298fa4a34d46",
            ("anthropic-cookbook/codebase_chunks.json",),
        ),
        Download(
            f"{_COOKBOOK}/evaluation_set.jsonl",
            "sha256:7186e2bed15547a2ed178134876b29e4abb206bf0394facbe61d58bf835ee073",
            ("anthropic-cookbook/evaluation_set.jsonl",),
        ),
    ),
    "nq-oracle": (
        Download(
            f"{_LOST_IN_THE_MIDDLE}/qa_data/nq-open-oracle.jsonl.gz",
            "sha256:6a7f72b846f663a133ef952244e5a4e43f06bcf190afe34e8fbe687ce0d1653e",
            ("lost-in-the-middle/nq-open-oracle.jsonl.gz",),
        ),
    ),
    "kv-pairs": (
        Download(
            f"{_LOST_IN_THE_MIDDLE}/kv_retrieval_data/kv-retrieval-75_keys.jsonl.gz",
            "sha256:eb6d61fc3473349f2b86df76757c6ab659cc929d907d24caf1c69928e03f6203",
            ("lost-in-the-middle/kv-retrieval-75_keys.jsonl.gz",),
        ),
    ),
}


def fetch(name: str) -> list[Path]:
    """The files of a published set (a name in ``DOWNLOADS``), downloaded to the cache where no data folder has them.

    An interrupted download goes on where it stopped. FileNotFoundError naming file, address and folder where the
    address cannot be reached; ValueError for an unknown name or another checksum.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"no published data set {name!r}; there are: {', '.join(DOWNLOADS)}.")
    return [path for source in DOWNLOADS[name] for path in _find(source) or _fetch(source)]


def files_of(name: str) -> list[Path]:
    """The files of a published set where a data folder has them; FileNotFoundError saying how to get them, else."""
    paths: list[Path] = []
    for source in DOWNLOADS[name]:
        found = _find(source)
        if not found:
            folders = " or ".join(str(folder) for folder in settings.published_data_folders())
            raise FileNotFoundError(
                f"{source.files[0]} is not in {folders}: run `python -m rag_lab fetch {name}`, which downloads it "
                f"from {source.address}, or set RAG_LAB_DATA to a folder that has it."
            )
        paths += found
    return paths


def placed(name: str) -> Path | None:
    """A file of Lost in the Middle's repository that was put by hand into a data folder's ``lost-in-the-middle``.

    Or below it, as in a clone. None where there is none. Their digests were never read, so nothing downloads them.
    """
    folders = [folder / "lost-in-the-middle" for folder in settings.published_data_folders()]
    return next((path for folder in folders for path in sorted(folder.rglob(name))), None)


def matches(path: Path, digest: str) -> bool:
    """Whether the file's digest is ``digest``, given as "sha256:…" or "md5:…" in hexadecimal."""
    algorithm, expected = digest.split(":")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == expected


def download(address: str, target: Path, digest: str) -> None:
    """Download ``address`` to ``target``, which appears only once its digest is right.

    What has arrived waits in ``target`` + ".part", and the next call asks the server for the rest. A finished file
    with another digest is deleted. Raises ValueError for that digest, URLError where the address cannot be reached
    or answers with an error, ConnectionError or TimeoutError where the transfer stops.
    """
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    if not (part.exists() and matches(part, digest)):
        _receive(address, part)
        if not matches(part, digest):
            part.unlink()
            raise ValueError(f"{address} does not have the digest {digest}: it was changed, or damaged on the way.")
    os.replace(part, target)


def _receive(address: str, part: Path) -> None:
    from tqdm.auto import tqdm

    held = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={held}-"} if held else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if not (held and error.code == 416):  # 416: nothing lies beyond what is held, so what is held is wrong
            raise
        part.unlink()
        return _receive(address, part)
    with response:
        if response.status != 206:  # the server sends the whole file, asked for or not
            held = 0
        length = response.headers["Content-Length"]
        size = held + int(length) if length else None
        progress = tqdm(total=size, initial=held, unit="B", unit_scale=True, desc=part.stem)
        with open(part, "ab" if held else "wb") as file, progress:
            while block := response.read(1 << 16):
                held += file.write(block)
                progress.update(len(block))
    if size is not None and held < size:
        raise ConnectionError(f"the transfer stopped after {held:,} of {size:,} bytes; fetch again for the rest")


def _fetch(source: Download) -> list[Path]:
    folder = settings.published_data_folders()[-1]
    top = PurePosixPath(source.files[0]).parts[0]
    target = folder / top / source.address.rsplit("/", 1)[-1]
    try:
        download(source.address, target, source.digest)
    except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError) as error:
        raise FileNotFoundError(
            f"{source.files[0]} is in no data folder and {source.address} did not give it ({error}); fetch it where "
            f"the network allows, or put it into {folder} by hand."
        ) from error
    paths = [folder / file for file in source.files]
    if source.is_archive:
        with zipfile.ZipFile(target) as archive:
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f"{path.name}.part")
                part.write_bytes(archive.read(path.relative_to(folder / top).as_posix()))
                os.replace(part, path)
        target.unlink()
    return paths


def _find(source: Download) -> list[Path]:
    """The files in the first data folder that has them all; empty where none has."""
    for folder in settings.published_data_folders():
        paths = [folder / file for file in source.files]
        if all(path.is_file() for path in paths):
            if not source.is_archive and not matches(paths[0], source.digest):
                raise ValueError(
                    f"{paths[0]} does not have the digest {source.digest}; delete it and fetch it again."
                )
            return paths
    return []
