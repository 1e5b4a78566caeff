"""Questions about your own documents, drafted and checked: one that a passage answers, one that nothing answers."""

import contextlib
import functools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from rag_lab.answering.extractive import ANSWER_THRESHOLD, ExtractiveReader
from rag_lab.answering.pipeline import answer
from rag_lab.chunking import SECTION_CHARS, chunk_corpus, chunk_headings
from rag_lab.citations.quotes import ground_quote
from rag_lab.evaluation.question_checks import (
    CHECK_TOKENS,
    AnswerCheck,
    check_prompt,
    copies,
    duplicate_of,
    model_check,
    prompts,
    sentence_check,
    speaks_of_passage,
)
from rag_lab.evaluation.scoring import outcome
from rag_lab.llm import spending
from rag_lab.llm.language_model import LanguageModel, costs_money
from rag_lab.llm.prompt import Prompt
from rag_lab.llm.structured import InvalidJSON, complete_json, json_schema
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.build import build_prompt
from rag_lab.prompting.templates import assign_sources
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.storage import append_jsonl, content_key, jsonl_bytes, read_jsonl, write_atomic
from rag_lab.text.answer_matching import contains_answer
from rag_lab.text.numbers import find_numbers
from rag_lab.text.segmentation import sentences, words
from rag_lab.types import Chunk, Document, GoldSpan, Hit, Question, Retriever

Record = dict[str, Any]

VERSION = 1  # of prompts and checks: a file made with another version is not continued
ANSWER_TOKENS = 128  # of the answer that shows that a positive can be answered
DRAFT_TOKENS = 400  # of a draft in JSON
SMALL_DRAFT_TOKENS = 60  # of a small model's question
MIN_WORDS = 5  # of a sentence that a small model is asked about
OPENING_CHARS = 1200  # of the passage that a small model reads before it writes a negative


@dataclass(frozen=True)
class QuestionReport:
    """What became of the questions of one kind. ``refused``: how many for each reason.

    ``answered_elsewhere``: negatives dropped because another document answers them, out of ``searched`` for which
    the other documents were searched.
    """

    written: int
    kept: int
    refused: dict[str, int]
    searched: int = 0
    answered_elsewhere: int = 0


def generate_questions(
    passages: Sequence[Document] | Sequence[Chunk],
    llm: LanguageModel,
    out: str | Path,
    per: Literal["chunk", "document"] = "chunk",
    retriever: Retriever | None = None,
    k: int = 5,
) -> list[Record]:
    """Write a positive and a negative question about each passage to ``out``, and return all records of the file.

    ``passages`` are chunks or documents. Documents are cut at their headings, or used whole if ``per="document"``.
    A positive is kept if its quote is in the passage (``ground_quote``), its answer is in the quote, and ``llm``,
    given the passage, answers it correctly (``contains_answer``). A negative is dropped if a check finds an answer
    in its passage or in the ``k`` passages that ``retriever`` (default: BM25 over the passages) finds for it; that is
    ``model_check``, or ``sentence_check`` for a small model. Both kinds must be questions, and repeat neither their
    passage nor an earlier question.

    A record is a line of JSON as in ``data/corpora/*/questions.jsonl``, with ``kind``, ``kept``, ``why`` and
    ``detail`` (if refused), the ``source`` chunk, ``model`` and ``key``. Lines may be edited, deleted and added;
    ``load_questions`` reads those that are kept (a missing ``kept`` counts as true). Started again, the run continues
    after the last passage in the file. For Claude, the cost is printed first and the cap holds.

    Raises ValueError if there are no passages, for chunks with ``per="document"``, and if the file was made with
    another model, other documents or another ``VERSION``. A failed call ends the run (CallFailed, OverBudget): start
    it again.
    """
    from tqdm.auto import tqdm

    chunks, search_chunks = _passages(passages, per)
    path = Path(out)
    keys = {chunk.id: _key(chunk, llm) for chunk in chunks}
    records = _resume(path)
    for record in records:
        if record.get("key") and keys.get(record["source"], record["key"]) != record["key"]:
            raise ValueError(
                f"{path} holds questions about {record['source']!r} by {record['model']}, made from another text or "
                "with other prompts: write to another file, or move this one away."
            )
    done = {record["key"] for record in records if "key" in record}
    todo = [chunk for chunk in chunks if keys[chunk.id] not in done]
    if not todo:
        return records
    retriever = retriever or BM25Index(search_chunks).search
    check: AnswerCheck = functools.partial(model_check, llm=llm)
    if llm.needs_prefill:
        reader = ExtractiveReader(Encoder.load("minilm"))
        check = functools.partial(sentence_check, reader=reader, threshold=ANSWER_THRESHOLD)
    with _estimated(todo, search_chunks, llm, k):
        for chunk in tqdm(todo, unit="passage"):
            kept = [(record["id"], record["text"]) for record in records if record.get("kept", True)]
            pair = _question_pair(chunk, llm, retriever, check, k, kept)
            pair = [record | {"model": llm.name, "key": keys[chunk.id]} for record in pair]
            append_jsonl(path, pair, ensure_ascii=False)
            records += pair
    return records


def report_questions(records: Iterable[Record]) -> dict[str, QuestionReport]:
    """What became of the questions, by kind (``positive``, ``negative``)."""
    reports, records = {}, list(records)
    for kind in ("positive", "negative"):
        mine = [record for record in records if record.get("kind") == kind]
        refused = Counter(record.get("why") or "by hand" for record in mine if not record.get("kept", True))
        kept = len(mine) - refused.total()
        elsewhere = refused["answered elsewhere"]
        searched = kept + refused["answered by the passage"] + elsewhere if kind == "negative" else 0
        reports[kind] = QuestionReport(len(mine), kept, dict(refused.most_common()), searched, elsewhere)
    return reports


def _passages(passages: Sequence[Document] | Sequence[Chunk], per: str) -> tuple[list[Chunk], list[Chunk]]:
    """The passages to ask about, and those to search for answers to the negatives."""
    if not passages or per not in ("chunk", "document"):
        raise ValueError(f"There are {len(passages)} passages, per is {per!r}: give some, and chunk or document.")
    documents = [one for one in passages if isinstance(one, Document)]
    chunks = [one for one in passages if isinstance(one, Chunk)]
    if chunks and (documents or per == "document"):
        raise ValueError("Give documents, or chunks with per='chunk': chunks are not whole documents.")
    if documents:
        chunks = chunk_corpus(documents, chunk_headings, size=SECTION_CHARS)
    if per == "chunk":
        return chunks, chunks
    whole = [Chunk(d.id, 0, d.text, 0, len(d.text), d.title, d.uri, (), d.metadata) for d in documents]
    return [chunk for chunk in whole if chunk.text.strip()], chunks


def _key(chunk: Chunk, llm: LanguageModel) -> str:
    model = [part for part in (llm.identity, llm.dtype) if part]
    return content_key(VERSION, model, chunk.id, chunk.text, chunk.title, chunk.section_path)[:16]


def _resume(path: Path) -> list[Record]:
    """The records to continue from. The file then ends after the last complete pair, so that more can be appended."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file for the questions.")
    if not path.exists():
        return []
    records = read_jsonl(path, strict=True)
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise ValueError(f"{path}, record {number} is {str(record)[:40]!r}; a record is a JSON object.")
    if records and records[-1].get("kind") == "positive" and "key" in records[-1]:
        records.pop()  # its negative was not written
    write_atomic(path, jsonl_bytes(records, ensure_ascii=False))
    return records


def _estimated(
    todo: Sequence[Chunk], chunks: Sequence[Chunk], llm: LanguageModel, k: int
) -> contextlib.AbstractContextManager[None]:
    """Print an estimate of all calls before the first. Prompts with a question not yet drafted get a made-up one."""
    if not costs_money(llm):
        return contextlib.nullcontext()
    longest = sorted(chunks, key=lambda chunk: -len(chunk.text))[:k]
    later = []
    for number, chunk in enumerate(todo):
        question = f"{number} " + "x" * 100
        later += [build_prompt(question, assign_sources([chunk]))]
        later += [check_prompt(question, [chunk]), check_prompt(question, longest)]
    drafts = llm.estimate([draft_prompt(chunk) for chunk in todo], DRAFT_TOKENS, schema=json_schema(Draft))
    rest = llm.estimate(later, CHECK_TOKENS)
    sums = ("requests", "input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "dollars")
    return spending.paid_work(replace(drafts, **{name: getattr(drafts, name) + getattr(rest, name) for name in sums}))


def _question_pair(
    chunk: Chunk,
    llm: LanguageModel,
    retriever: Retriever,
    check: AnswerCheck,
    k: int,
    kept: Sequence[tuple[str, str]],
) -> list[Record]:
    """The checked records of a positive and a negative question; ``kept`` are (id, text) of earlier questions."""
    try:
        drafted, problem = draft(chunk, llm), ""
    except NoDraft as error:
        drafted, problem = NO_DRAFT, str(error)
    language = str(chunk.metadata.get("language") or "en")
    span = ground_quote(drafted.quote, chunk.text)
    gold = (GoldSpan(chunk.doc_id, chunk.start + span[0], chunk.start + span[1]),) if span else ()
    positive = Question(f"{chunk.id}/positive", drafted.positive, (drafted.answer,), gold, language=language)
    refusal = _form_refusal(drafted.positive, problem, chunk, kept)
    refusal = refusal or _positive_refusal(positive, drafted.quote, chunk, llm)
    records = [_record(positive, refusal, chunk)]
    if not refusal:
        kept = [*kept, (positive.id, positive.text)]
    negative = Question(f"{chunk.id}/negative", drafted.negative, (), (), "unanswerable", language)
    refusal = _form_refusal(drafted.negative, problem, chunk, kept)
    refusal = refusal or _negative_refusal(negative.text, chunk, retriever, check, k)
    return [*records, _record(negative, refusal, chunk)]


Refusal = tuple[str, str] | None  # why a question is refused, and a detail; None if it is kept


def _form_refusal(text: str, problem: str, chunk: Chunk, kept: Sequence[tuple[str, str]]) -> Refusal:
    """The checks for both kinds of question."""
    if problem:
        return problem, ""
    if not text or text[-1] not in "?？؟":
        return "no question", ""
    if speaks_of_passage(text):
        return "about its wording", ""
    if copies(text, chunk.text):
        return "copies the passage", ""
    twin = duplicate_of(text, kept)
    return ("duplicate", twin) if twin else None


def _positive_refusal(question: Question, quote: str, chunk: Chunk, llm: LanguageModel) -> Refusal:
    """Whether the passage really answers a positive."""
    if not question.gold:
        return "quote not in the passage", quote
    if not question.answers[0] or not contains_answer(quote, question.answers):
        return "answer not in the quote", ""
    if contains_answer(question.text, question.answers):
        return "holds its own answer", ""
    found = answer(question.text, lambda *_: [Hit(chunk, 1.0, 1)], llm, k=1, max_tokens=ANSWER_TOKENS)
    if found.status == "error":
        return "answering failed", found.reason
    correct = outcome(found, question) == "correct"
    return None if correct else ("not answered with the passage given", found.text or found.reason)


def _negative_refusal(text: str, chunk: Chunk, retriever: Retriever, check: AnswerCheck, k: int) -> Refusal:
    """Whether nothing answers a negative: neither its passage nor another."""

    def overlaps(other: Chunk) -> bool:
        return other.doc_id == chunk.doc_id and other.start < chunk.end and chunk.start < other.end

    others = [hit.chunk for hit in retriever(text, k) if not overlaps(hit.chunk)]
    try:
        if found := check(text, [chunk]):
            return "answered by the passage", found[1]
        if others and (found := check(text, others)):
            return "answered elsewhere", f"{found[0].id}: {found[1]}"
    except InvalidJSON as error:
        return "no verdict", str(error)
    return None


def _record(question: Question, refusal: Refusal, chunk: Chunk) -> Record:
    why, detail = refusal or ("", "")
    gold = [asdict(s) | {"text": chunk.text[s.start - chunk.start : s.end - chunk.start]} for s in question.gold]
    return {
        "id": question.id,
        "text": question.text,
        "answers": list(question.answers),
        "gold": gold,
        "reference": question.reference,
        "language": question.language,
        "source": chunk.id,
        "kind": question.id.rpartition("/")[2],
        "kept": refusal is None,
        "why": why,
        "detail": detail,
    }


class Draft(BaseModel):
    """Unchecked questions about one passage. ``quote`` should be a sentence of it, ``answer`` a part of the quote."""

    model_config = ConfigDict(str_strip_whitespace=True)
    positive: str
    quote: str
    answer: str
    negative: str


NO_DRAFT = Draft(positive="", quote="", answer="", negative="")


class NoDraft(RuntimeError):  # noqa: N818
    """There are no questions about a passage, for the reason in the message."""


def draft_prompt(passage: Chunk) -> Prompt:
    """The prompt for a model that writes JSON."""
    fields = {"title": passage.title, "sections": list(passage.section_path), "passage": passage.text}
    return Prompt.of(json.dumps(fields, ensure_ascii=False), system=prompts()["draft"])


def draft(passage: Chunk, llm: LanguageModel) -> Draft:
    """Two questions by ``llm``, unchecked. Raises NoDraft if it writes no JSON or there is no sentence to ask about.

    A small model (``needs_prefill``) neither copies a quote nor keeps to JSON, so it is prompted in plain text, once
    per question. The sentence that it is asked about is chosen here, by a hash of the passage: one with exactly one
    number, which is then the answer, else any of at least ``MIN_WORDS`` words.
    """
    if not llm.needs_prefill:
        try:
            return complete_json(llm, draft_prompt(passage), Draft, DRAFT_TOKENS)
        except InvalidJSON as error:
            raise NoDraft("no JSON") from error
    candidates = [(sentence, _only_number(sentence)) for sentence in _sentences(passage.text)]
    candidates = [pair for pair in candidates if pair[1]] or candidates
    if not candidates:
        raise NoDraft("no sentence to ask about")
    quote, number = candidates[int(content_key(passage.text), 16) % len(candidates)]
    prefill = f"Answer: {number}\nQuestion:" if number else "Answer:"
    topic = "Topic: " + " > ".join(dict.fromkeys(filter(None, (passage.title, *passage.section_path))))
    positive = _complete(llm, "small_positive", f"{topic}\nSentence: {quote}", prefill)
    answer, _, question = positive.partition("Question:")
    opening = " ".join(passage.text[:OPENING_CHARS].split())
    negative = _complete(llm, "small_negative", f"{topic}\nText: {opening}", "Question:")
    return Draft(
        positive=_first_line(question),
        quote=quote,
        answer=_first_line(answer.removeprefix("Answer:")).rstrip("."),
        negative=_first_line(negative.removeprefix("Question:")),
    )


def _complete(llm: LanguageModel, prompt: str, request: str, prefill: str) -> str:
    """What a small model writes to ``request`` after the examples of ``prompt``."""
    parts = prompts()[prompt]
    history = [turn for asked, reply in parts["examples"] for turn in (("user", asked), ("assistant", reply))]
    return llm.complete(Prompt.of(request, parts["system"], history, prefill), max_tokens=SMALL_DRAFT_TOKENS).text


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].strip()


def _sentences(text: str) -> list[str]:
    pieces = [text[start:end].strip() for start, end in sentences(text, 0, len(text))]
    return [p for p in pieces if not p.startswith("#") and len(list(words(p, 0, len(p)))) >= MIN_WORDS]


def _only_number(sentence: str) -> str:
    numbers = [number.text for number in find_numbers(sentence) if not number.weak]
    return numbers[0] if len(numbers) == 1 else ""
