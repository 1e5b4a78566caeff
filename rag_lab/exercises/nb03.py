"""Checks of notebook 03's exercises. Each returns None for a right answer, else a hint."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from rag_lab.chunking import chunk_sentences
from rag_lab.llm import pricing
from rag_lab.metrics import paired_difference
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval import contextual, evaluate
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.types import Chunk, Corpus, Document

# Exercise 1: two rankings, best first.
DENSE, WORDS = ["a", "b", "c", "d"], ["d", "c", "e"]

# Exercise 2: a document, its chunks, and what is asked and written for each; tokens, at this model's prices.
MODEL = "claude-haiku-5-5"
DOCUMENT_TOKENS, CHUNKS, CHUNK_TOKENS, INSTRUCTION_TOKENS, CONTEXT_TOKENS = 30_000, 20, 1_500, 100, 80


def check_fusion(attempt: Sequence[str]) -> str | None:
    """The letters of ``DENSE`` and ``WORDS`` in the order of reciprocal rank fusion with k = 60."""
    if sorted(attempt) != sorted({*DENSE, *WORDS}):
        return f"give each of {', '.join(sorted({*DENSE, *WORDS}))} once"
    if list(attempt) == _fused(60):
        return None
    if list(attempt) == _fused(0):
        return "that is the order of 1 / rank; with 60 added, being in both lists counts for more than being first"
    if attempt[0] == DENSE[0]:
        return f"{DENSE[0]} is in one list: at most 1/61. What does a letter get that is in both?"
    return "write down 1 / (60 + rank) for each list that a letter is in, and add"


def check_cost(attempt: float) -> str | None:
    """US dollars to situate the chunks one after another with a 5-minute cache, the first chunk's call writing it."""
    calls = pricing.context_calls([DOCUMENT_TOKENS], CHUNK_TOKENS, INSTRUCTION_TOKENS, CONTEXT_TOKENS)
    written = pricing.dollars(MODEL, output=CHUNKS * CONTEXT_TOKENS)
    right = pricing.estimate(MODEL, calls).dollars
    slips = {
        pricing.estimate(MODEL, calls, cache="").dollars: "that is without a cache: the document at the input price",
        right
        + pricing.dollars(MODEL, cache_read=DOCUMENT_TOKENS): "the call that writes the document does not read it",
        right - written: "the contexts are output, and paid too",
    }
    if math.isclose(attempt, right, rel_tol=0.005):
        return None
    if math.isclose(attempt, right * 1e6, rel_tol=0.005):
        return "prices are per million tokens: divide by a million"
    for wrong, hint in slips.items():
        if math.isclose(attempt, wrong, rel_tol=0.005):
            return hint
    return "four parts: one write and the other chunks' reads of the document; chunks with instruction; contexts"


def check_context(attempt: Callable[[Document, Chunk], str], corpus: Corpus, encoder: Encoder) -> str | None:
    """``attempt(document, chunk)``: a context that finds more in the first five than none; prints recall@5."""
    cut = [(document, chunk) for document in corpus.documents for chunk in chunk_sentences(document, size=None)]
    plain = [chunk for _, chunk in cut]
    contexts = [attempt(document, chunk) for document, chunk in cut]
    for chunk, context in zip(plain, contexts, strict=True):
        if not isinstance(context, str):
            return f"for chunk {chunk.id} it returned {context!r}: a context is a text, '' where there is none"
    if all(chunk.text in context for chunk, context in zip(plain, contexts, strict=True)):
        return (
            "your contexts hold the chunks' own text, which is put after the context anyway: return the context alone"
        )
    yours = [replace(chunk, context=context) for chunk, context in zip(plain, contexts, strict=True)]
    headings = [chunk for document, own in cut for chunk in contextual.add_heading_context(document, [own])]
    questions = [question for question in corpus.questions if question.answerable]
    queries = encoder.encode([question.text for question in questions], kind="query")
    recall = {}
    for name, chunks in {"no context": plain, "yours": yours, "add_heading_context": headings}.items():
        index = DenseIndex(chunks, encoder.encode([chunk.contextual_text for chunk in chunks]))
        recall[name] = evaluate.dense_span_recalls(index, queries, questions, [5])[5]
        print(f"recall@5, {name}: {recall[name].mean():.3f} (n = {len(questions)})")
    for name in ("no context", "add_heading_context"):
        gain = paired_difference(recall["yours"], recall[name])
        print(f"yours − {name}: {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")
    if recall["yours"].mean() > recall["no context"].mean():
        return None
    return "your context finds no more than none: does it name what the question names, the document's subject?"


def _fused(k: int) -> list[str]:
    score = {
        letter: sum(1 / (k + ranking.index(letter) + 1) for ranking in (DENSE, WORDS) if letter in ranking)
        for letter in (*DENSE, *WORDS)
    }
    return sorted(score, key=lambda letter: -score[letter])
