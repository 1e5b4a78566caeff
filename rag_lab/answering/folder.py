"""A question to a folder of your own documents: indexed, answered and checked in one call."""

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rag_lab.answering.extractive import ANSWER_THRESHOLD, ExtractiveReader
from rag_lab.answering.pipeline import answer
from rag_lab.answering.trace import Answer
from rag_lab.chunking import SECTION_CHARS, chunk_corpus, chunk_headings
from rag_lab.citations.display import show_answer
from rag_lab.documents import load_folder
from rag_lab.llm.load import load_llm
from rag_lab.models.encoder import Encoder, load_encoder
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.fusion import fused_retriever
from rag_lab.retrieval.vector_cache import encode_cached
from rag_lab.storage import cached_json, content_key
from rag_lab.types import Chunk, Retriever


def chunks_of(folder: str | Path) -> list[Chunk]:
    """The documents of a folder, cut at their headings. Raises as ``load_folder`` does, also if there is no text."""
    return chunk_corpus(load_folder(folder), chunk_headings, size=SECTION_CHARS)


def index(chunks: Sequence[Chunk], encoder: Encoder, folder: str | Path) -> Retriever:
    """Dense search and BM25, fused. Only texts that are new in ``folder`` are embedded (see ``vector_cache``)."""
    texts = [chunk.contextual_text for chunk in chunks]
    dense = DenseIndex(chunks, encode_cached(encoder, texts, str(Path(folder).resolve())))
    return fused_retriever([dense_retriever(dense, encoder), BM25Index(chunks).search])


def ask(
    folder: str | Path, question: str, llm: str = "extractive", k: int = 5, threshold: float = ANSWER_THRESHOLD
) -> Answer:
    """The answer to ``question`` from the ``k`` best chunks of ``folder``, with checked citations.

    ``llm``: ``extractive`` (no language model: the best sentence, or a refusal if its cosine with the question is
    under ``threshold``), or a model by short name, hub id, path or ``claude-…``. ``RAG_LAB_ENCODER`` names the
    encoder. Warns of files that cannot be read, at the first question and whenever they change. Raises ValueError if
    the question is blank, ``k`` is under 1 or the folder is empty, and as ``answer`` and the loaders do.
    """
    if not question.strip() or k < 1:
        raise ValueError(f"The question is {question!r} and k {k}: ask something, of 1 chunk or more.")
    with warnings.catch_warnings(record=True) as notes:
        chunks = chunks_of(folder)
    for note in notes:  # once per machine: otherwise every question to a folder would repeat the same warning
        key = content_key("ask", str(Path(folder).resolve()), str(note.message))
        cached_json("notes", key, partial(warnings.warn, note.message, stacklevel=2))
    model = None if llm == "extractive" else load_llm(llm)  # before the folder is encoded, since it may be missing
    encoder = load_encoder()
    retriever = index(chunks, encoder, folder)
    if model is None:
        return ExtractiveReader(encoder, threshold).answer(question, retriever, k)
    return answer(question, retriever, model, k)


def shown(found: Answer) -> str:
    """An answer as plain text with its sources and the problems that the checks found; a refusal as it is."""
    if found.status == "refused":
        return found.text
    return show_answer(found.text, found.report, found.quotes, found.numbers).plain
