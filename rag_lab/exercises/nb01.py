"""The checks of notebook 01's exercises. Each returns None if the attempt is right, else a hint."""

from collections.abc import Callable

from rag_lab.chunking import chunk_corpus, chunk_sentences
from rag_lab.exercises.hints import number_hint, recalls
from rag_lab.models.encoder import Encoder
from rag_lab.types import Chunk, Corpus, Document


def check_cosine(attempt: float) -> str | None:
    """The cosine of [3, 4] and [4, 3]: 24 / (5 · 5)."""
    hint = "multiply element by element, add up, and divide by both lengths; each length is 5"
    return number_hint(attempt, 24 / 25, {}, hint)


def check_span_recall(attempt: float) -> str | None:
    """Of characters 10 to 30, the chunks cover 10 to 25: 15 of 20, with the overlap counted once."""
    hint = "which of the characters 10 to 30 are in at least one of the two chunks? Count each once"
    return number_hint(attempt, 0.75, {}, hint, rel=1e-9)


def check_add_title(attempt: Callable[[Document, Chunk], str], corpus: Corpus, encoder: Encoder) -> str | None:
    """``attempt(document, chunk)``: the title before the chunk's text. Prints recall@1 without and with it."""
    documents = {document.id: document for document in corpus.documents}
    chunks = chunk_corpus(corpus.documents, chunk_sentences, size=None)
    titled = [attempt(documents[chunk.doc_id], chunk) for chunk in chunks]
    for chunk, text in zip(chunks, titled, strict=True):
        if text != f"{documents[chunk.doc_id].title}. {chunk.text}":
            return f"for chunk {chunk.id} it returned {text[:60]!r}; it should be title, full stop, space, text"
    for name, texts in {"without": [chunk.text for chunk in chunks], "with": titled}.items():
        recall = recalls(chunks, texts, corpus.questions, encoder, 1).mean()
        print(f"recall@1 {name} the title: {recall:.2f} (n = {len(corpus.questions)})")
    return None
