"""Questions for your own documents: one that a passage answers and one that nothing answers, made and checked."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rag_lab import budget
from rag_lab.answering import answer
from rag_lab.chunking import chunk_headings
from rag_lab.claude import ClaudeLLM
from rag_lab.datasets import Question, Span
from rag_lab.documents import Chunk, Document
from rag_lab.faithfulness import NoVerdict
from rag_lab.grounding import ground_quote
from rag_lab.llm import LocalLLM
from rag_lab.prompting import assign_sources, build_prompt
from rag_lab.question_checks import (
    ANSWERED_FROM,
    CHECK_TOKENS,
    Check,
    check_prompt,
    copies,
    duplicate_of,
    model_check,
    sentence_check,
    speaks_of_passage,
)
from rag_lab.question_prompts import MAX_TOKENS, SCHEMA, draft, draft_prompt
from rag_lab.question_records import QuestionReport as QuestionReport
from rag_lab.question_records import Record, append, resume
from rag_lab.question_records import load_records as load_records
from rag_lab.question_records import report as report
from rag_lab.scoring import matches, outcome
from rag_lab.search import BM25Index, Hit, Retriever
from rag_lab.store import content_key

Per = Literal["chunk", "document"]

CHUNK_CHARS = 1500
ANSWER_TOKENS = 128
VERSION = 1  # of prompts and checks: a file made with others is not continued


def generate_questions(
    passages: Sequence[Document] | Sequence[Chunk],
    llm: Any,
    out: str | Path,
    per: Per = "chunk",
    retriever: Retriever | None = None,
    check: Check | None = None,
    k: int = 5,
) -> list[Record]:
    """A positive and a negative question about each passage, written to ``out`` as they come; all its records.

    ``passages`` are chunks, or documents: these are cut at their headings, or with ``per="document"`` asked about
    whole. A positive is kept if its quote stands in the passage (``ground_quote``), its answer in the quote, and
    ``llm``, given the passage, answers it (``answering.answer``, judged by ``scoring.matches``). A negative is
    dropped if ``check`` finds an answer in the passage or in the ``k`` that ``retriever`` finds for it (default:
    BM25 over the passages; ``model_check(llm)``, for a local model ``sentence_check``). Both must be questions that
    repeat neither their passage nor an earlier question.

    A record is one line of JSON as in ``data/corpora/*/questions.jsonl``, with ``kind``, ``kept``, ``why`` and
    ``detail`` of what was refused, the ``source`` chunk, ``model`` and ``key``. Edit, delete and add lines at will;
    ``datasets.load_questions`` reads those that are kept (a missing ``kept`` counts as true). Started again, it goes
    on after the last passage in the file. For Claude the cost is printed first and the cap holds.

    ValueError for no passages, chunks with ``per="document"``, or a file made with another model, other documents or
    an older version of the prompts. A call that fails ends the run (CallFailed, OverBudget): start it again then.
    """
    from tqdm.auto import tqdm

    chunks, search_chunks = _passages(passages, per)
    path = Path(out)
    keys = {chunk.id: _key(chunk, llm) for chunk in chunks}
    records = resume(path)
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
    check = check or _default_check(llm)
    with _estimated(todo, search_chunks, llm, k):
        for chunk in tqdm(todo, unit="passage"):
            kept = [(record["id"], record["text"]) for record in records if record.get("kept", True)]
            made = _pair(chunk, llm, retriever, check, k, kept)
            made = [record | {"model": llm.name, "key": keys[chunk.id]} for record in made]
            append(path, made)
            records += made
    return records


def _passages(passages: Sequence[Document] | Sequence[Chunk], per: Per) -> tuple[list[Chunk], list[Chunk]]:
    """What is asked about, and what is searched for answers to the negatives."""
    if not passages or per not in ("chunk", "document"):
        raise ValueError(f"There are {len(passages)} passages, per is {per!r}: give some, and chunk or document.")
    documents = [one for one in passages if isinstance(one, Document)]
    chunks = [one for one in passages if isinstance(one, Chunk)]
    if chunks and (documents or per == "document"):
        raise ValueError("Give documents, or chunks with per='chunk': chunks are not whole documents.")
    if documents:
        chunks = [chunk for document in documents for chunk in chunk_headings(document, size=CHUNK_CHARS)]
    if per == "chunk":
        return chunks, chunks
    whole = [Chunk(d.id, 0, d.text, 0, len(d.text), d.title, d.uri, (), d.metadata) for d in documents]
    return [chunk for chunk in whole if chunk.text.strip()], chunks


def _pair(
    chunk: Chunk, llm: Any, retriever: Retriever, check: Check, k: int, kept: Sequence[tuple[str, str]]
) -> list[Record]:
    written = draft(chunk, llm)
    language = str(chunk.metadata.get("language") or "en")
    base = {"reference": "", "language": language, "source": chunk.id}
    span = ground_quote(written.quote, chunk.text)
    gold = [Span(chunk.doc_id, chunk.start + span[0], chunk.start + span[1])] if span else []
    positive = Question(f"{chunk.id}/positive", written.positive, (written.answer,), tuple(gold), language=language)
    refusal = _refusal(written.positive, written.problem, chunk, kept)
    refusal = refusal or _unsupported(positive, written.quote, chunk, llm)
    yes = _record(positive, "positive", refusal, chunk, base)
    if not refusal:
        kept = [*kept, (positive.id, positive.text)]
    negative = Question(f"{chunk.id}/negative", written.negative, (), (), language=language)
    refusal = _refusal(written.negative, written.problem, chunk, kept)
    refusal = refusal or _answered(negative.text, chunk, retriever, check, k)
    return [yes, _record(negative, "negative", refusal, chunk, base | {"reference": "unanswerable"})]


def _refusal(text: str, problem: str, chunk: Chunk, kept: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Why a question of either kind is refused, and the details; None where it is not."""
    if problem:
        return problem, ""
    if not text or text[-1] not in "?？؟":
        return "no question", ""
    if speaks_of_passage(text):
        return "about its wording", ""
    if copies(text, chunk.text):
        return "copies the passage", ""
    if twin := duplicate_of(text, kept):
        return "duplicate", twin
    return None


def _unsupported(question: Question, quote: str, chunk: Chunk, llm: Any) -> tuple[str, str] | None:
    """Why a positive is not shown to be one."""
    if not question.gold:
        return "quote not in the passage", quote
    if not question.answers[0] or not matches(quote, question.answers):
        return "answer not in the quote", ""
    if matches(question.text, question.answers):
        return "holds its own answer", ""
    found = answer(question.text, lambda *_: [Hit(chunk, 1.0, 1)], llm, k=1, max_tokens=ANSWER_TOKENS)
    if found.status == "error":
        return "answering failed", found.reason
    if outcome(found, question) != "correct":
        return "not answered with the passage given", found.text or found.reason
    return None


def _answered(text: str, chunk: Chunk, retriever: Retriever, check: Check, k: int) -> tuple[str, str] | None:
    """Why a negative is none: its passage answers it, or another one does."""
    others = [hit.chunk for hit in retriever(text, k) if not _overlap(hit.chunk, chunk)]
    try:
        if found := check(text, [chunk]):
            return "answered by the passage", found[1]
        if others and (found := check(text, others)):
            return "answered elsewhere", f"{found[0].id}: {found[1]}"
    except NoVerdict as error:
        return "no verdict", str(error)
    return None


def _overlap(a: Chunk, b: Chunk) -> bool:
    return a.doc_id == b.doc_id and a.start < b.end and b.start < a.end


def _record(question: Question, kind: str, refusal: tuple[str, str] | None, chunk: Chunk, base: Record) -> Record:
    def held(span: Span) -> str:
        return chunk.text[span.start - chunk.start : span.end - chunk.start]

    gold = [{"doc_id": s.doc_id, "start": s.start, "end": s.end, "text": held(s)} for s in question.gold]
    why, detail = refusal or ("", "")
    head = {"id": question.id, "text": question.text, "answers": list(question.answers), "gold": gold}
    return head | base | {"kind": kind, "kept": refusal is None, "why": why, "detail": detail}


def _default_check(llm: Any) -> Check:
    if not isinstance(llm, LocalLLM):
        return model_check(llm)
    from rag_lab.encoder import Encoder
    from rag_lab.extractive import ExtractiveReader

    return sentence_check(ExtractiveReader(Encoder.load("minilm"), ANSWERED_FROM))


def _key(chunk: Chunk, llm: Any) -> str:
    model = [llm.identity, llm.dtype] if isinstance(llm, LocalLLM) else [llm.name]
    return content_key(VERSION, model, chunk.id, chunk.text, chunk.title, chunk.section_path)[:16]


def _estimated(
    todo: Sequence[Chunk], chunks: Sequence[Chunk], llm: Any, k: int
) -> contextlib.AbstractContextManager[None]:
    """The estimate of all calls, printed before the first; the later prompts with a question of usual length."""
    if not isinstance(llm, ClaudeLLM):
        return contextlib.nullcontext()
    longest = sorted(chunks, key=lambda chunk: -len(chunk.text))[:k]
    drafts = [draft_prompt(chunk) for chunk in todo]
    later = []
    for number, chunk in enumerate(todo):
        question = f"{number} " + "x" * 100
        later += [build_prompt(question, assign_sources([chunk]))]
        later += [check_prompt(question, [chunk]), check_prompt(question, longest)]
    both = [llm.estimate(drafts, MAX_TOKENS, schema=SCHEMA), llm.estimate(later, CHECK_TOKENS)]
    sums = ("requests", "input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "dollars")
    return budget.paid_work(replace(both[0], **{name: sum(getattr(one, name) for one in both) for name in sums}))
