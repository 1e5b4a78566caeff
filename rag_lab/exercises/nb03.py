"""The checks of notebook 03's exercises. Each returns None if the attempt is right, else a hint."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rag_lab.chunking import chunk_sentences
from rag_lab.exercises.hints import number_hint, recalls
from rag_lab.llm import pricing
from rag_lab.metrics import paired_difference
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.contextual import add_heading_context
from rag_lab.types import Chunk, Corpus, Document

# Exercise 1: two rankings, best first.
DENSE, WORDS = ["a", "b", "c", "d"], ["d", "c", "e"]

# Exercise 2: tokens of a document, number of its chunks; tokens per chunk, per instruction and per context.
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
    """US dollars for the contexts of all chunks, with a 5-minute cache that the first chunk's call writes."""
    calls = pricing.context_calls([DOCUMENT_TOKENS], CHUNK_TOKENS, INSTRUCTION_TOKENS, CONTEXT_TOKENS)
    right = pricing.estimate(MODEL, calls).dollars
    one_read = pricing.dollars(MODEL, cache_read=DOCUMENT_TOKENS)
    slips = {
        right * 1e6: "prices are per million tokens: divide by a million",
        pricing.estimate(MODEL, calls, cache="").dollars: "that is without a cache: the document at the input price",
        right + one_read: "the call that writes the document does not read it",
        right - pricing.dollars(MODEL, output=CHUNKS * CONTEXT_TOKENS): "the contexts are output, and paid too",
    }
    hint = "four parts: one write and the other chunks' reads of the document; chunks with instruction; contexts"
    return number_hint(attempt, right, slips, hint)


def check_context(attempt: Callable[[Document, Chunk], str], corpus: Corpus, encoder: Encoder) -> str | None:
    """``attempt(document, chunk)``: a context with which recall@5 is higher than without; prints both."""
    cut = [(document, chunk) for document in corpus.documents for chunk in chunk_sentences(document, size=None)]
    yours = [replace(chunk, context=attempt(document, chunk)) for document, chunk in cut]
    for chunk in yours:
        if not isinstance(chunk.context, str):
            return f"for chunk {chunk.id} it returned {chunk.context!r}: a context is a text, '' where there is none"
    if all(chunk.text in chunk.context for chunk in yours):
        return "your contexts hold the chunks' own text, which follows the context anyway: return the context alone"
    arms = {
        "no context": [chunk for _, chunk in cut],
        "yours": yours,
        "add_heading_context": [own for document, chunk in cut for own in add_heading_context(document, [chunk])],
    }
    questions = [question for question in corpus.questions if question.answerable]
    recall = {}
    for name, chunks in arms.items():
        recall[name] = recalls(chunks, [chunk.contextual_text for chunk in chunks], questions, encoder, 5)
        print(f"recall@5, {name}: {recall[name].mean():.3f} (n = {len(questions)})")
    for name in ("no context", "add_heading_context"):
        print(f"yours − {name}: {paired_difference(recall['yours'], recall[name]):+.3f}")
    if recall["yours"].mean() > recall["no context"].mean():
        return None
    return "your context finds no more than none: does it name what the question names, the document's subject?"


def _fused(k: int) -> list[str]:
    def score(letter: str) -> float:
        return sum(1 / (k + ranking.index(letter) + 1) for ranking in (DENSE, WORDS) if letter in ranking)

    return sorted((*DENSE, "e"), key=score, reverse=True)
