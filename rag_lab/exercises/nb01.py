"""Checks of notebook 01's exercises. Each returns None for a right answer, else a hint."""

import math
from collections.abc import Callable

from rag_lab.chunking import chunk_corpus, chunk_sentences
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval import evaluate
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.types import Chunk, Corpus, Document


def check_cosine(attempt: float) -> str | None:
    """The cosine of [3, 4] and [4, 3]: 24 / (5 * 5)."""
    if math.isclose(attempt, 24 / 25, abs_tol=0.005):
        return None
    return "multiply element by element, add up, and divide by both lengths; each length is 5"


def check_span_recall(attempt: float) -> str | None:
    """Of characters 10 to 30, the chunks cover 10 to 25: 15 of 20, the overlap counted once."""
    if math.isclose(attempt, 0.75):
        return None
    return "which of the characters 10 to 30 lie in at least one of the two chunks? Count each once"


def check_add_title(attempt: Callable[[Document, Chunk], str], corpus: Corpus, encoder: Encoder) -> str | None:
    """The title must stand before each chunk's text; prints recall@1 without and with it."""
    documents = {document.id: document for document in corpus.documents}
    chunks = chunk_corpus(corpus.documents, chunk_sentences, size=None)
    texts = [attempt(documents[chunk.doc_id], chunk) for chunk in chunks]
    for chunk, text in zip(chunks, texts, strict=True):
        if text != f"{documents[chunk.doc_id].title}. {chunk.text}":
            return f"for chunk {chunk.id} it returned {text[:60]!r}; it should be title, full stop, space, text"
    queries = encoder.encode([question.text for question in corpus.questions], kind="query")
    for name, embedded in {"without": [chunk.text for chunk in chunks], "with": texts}.items():
        index = DenseIndex(chunks, encoder.encode(embedded))
        recall = evaluate.dense_span_recalls(index, queries, corpus.questions, [1])[1].mean()
        print(f"recall@1 {name} the title: {recall:.2f} (n = {len(corpus.questions)})")
    return None
