"""A sweep's indexes: chunks, vectors, and the hits for every question, from disk where they were made before.

The same in every process: one thread, and texts embedded in batches that the chunking alone decides.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rag_lab import costs, messages, reranking, sweep_cache
from rag_lab.chunking import CHUNKERS
from rag_lab.claude import ClaudeLLM
from rag_lab.contextual import add_heading_context, situate
from rag_lab.datasets import Question
from rag_lab.documents import Chunk, Document
from rag_lab.encoder import Encoder, Kind, Vectors
from rag_lab.language_models import is_paid
from rag_lab.llm import LocalLLM, Prompt
from rag_lab.search import BM25Index, DenseIndex, Hit, Retriever, dense_retriever, fused_retriever
from rag_lab.store import content_key
from rag_lab.sweep_keys import DEPTH, Configuration

# Configurations that agree in these have the same chunks and vectors.
INDEX_KEYS = (
    "embedding.model",
    "embedding.late",
    "chunking.strategy",
    "chunking.chunk_size",
    "chunking.overlap",
    "context.method",
    "context.model",
)


class _Shared:
    """An encoder that embeds every text by itself, and once: sentences recur in many chunks."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vector = functools.lru_cache(maxsize=100_000)(self._embed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def _embed(self, text: str, kind: Kind) -> Vectors:
        return self._encoder.encode([text], kind)[0]

    def together(self, texts: Sequence[str]) -> Vectors:
        """Passages in batches, which is quicker, but shapes the rounding of each by the others."""
        return self._encoder.encode(texts)

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> Vectors:
        vectors = [self._vector(text, kind) for text in texts]
        return np.array(vectors, np.float32).reshape(len(texts), self._encoder.dimension)


@functools.cache
def load_encoder(name: str) -> Any:
    """The encoder, once in a process."""
    return _Shared(Encoder.load(name))


@functools.cache
def load_llm(name: str) -> Any:
    """The model, once in a process."""
    return _Bounding(name) if is_paid(name) else LocalLLM.load(name)


class _Bounding(ClaudeLLM):
    """Counts tokens by an upper bound, without asking the API for every prompt of a sweep."""

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        body = messages.request(self.price, prompt, 1, 0.0, None, self.effort)
        return messages.call(body, costs.token_bound).window - 1


@functools.cache
def _reranker(name: str, encoder: str) -> reranking.Reranker:
    if name == "max_sim":
        return reranking.with_first_stage(reranking.max_sim(load_encoder(encoder)))
    if name == "query_likelihood":
        return reranking.with_first_stage(reranking.query_likelihood(load_llm("smollm2")))
    return reranking.cross_encoder(name)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: how sums are split among threads shapes their rounding."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def cut(documents: Sequence[Document], settings: Configuration) -> list[Chunk]:
    """The chunks of all documents, with their context."""
    strategy = settings["chunking.strategy"]
    options = {"size": settings["chunking.chunk_size"], "overlap": settings["chunking.overlap"]}
    if strategy == "by_tokens":
        options["tokenizer"] = load_encoder(settings["embedding.model"]).tokenizer
    pieces = {document.id: CHUNKERS[strategy](document, **options) for document in documents}
    if settings["context.method"] == "headings":
        pieces = {document.id: add_heading_context(document, pieces[document.id]) for document in documents}
    chunks = [chunk for found in pieces.values() for chunk in found]
    if settings["context.method"] == "llm":
        from filelock import FileLock

        name = settings["context.model"]
        llm = ClaudeLLM(name) if is_paid(name) else load_llm(name)
        sweep_cache.folder().mkdir(parents=True, exist_ok=True)
        with FileLock(sweep_cache.folder() / "contexts.lock"):  # two indexes may share the contexts
            chunks = [chunk for chunk, _ in situate(documents, chunks, llm)]
    if not chunks:
        raise ValueError(f"{strategy} cut no chunk from the {len(documents)} documents: they hold no text.")
    return chunks


def retrieved(
    documents: Sequence[Document], questions: Sequence[Question], settings: Configuration, chunks: list[Chunk]
) -> list[list[Hit]]:
    """The first ``DEPTH`` hits for each question, from disk where they were found before."""
    method, rerank, name = (settings[k] for k in ("retrieval.method", "retrieval.rerank", "embedding.model"))
    key = content_key(
        sweep_cache.code("sweep_index"),
        [method, rerank, settings["embedding.late"]],
        sweep_cache.model_identity(name) if method != "bm25" or rerank == "max_sim" else "",
        sweep_cache.model_identity("smollm2") if rerank == "query_likelihood" else "",
        sweep_cache.model_identity(rerank) if rerank not in ("none", "max_sim", "query_likelihood") else "",
        [[chunk.id, chunk.contextual_text, chunk.start] for chunk in chunks],
        [document.text for document in documents] if settings["embedding.late"] else "",
        [question.text for question in questions],
    )

    def search() -> list[list[tuple[int, float]]]:
        position = {chunk.id: i for i, chunk in enumerate(chunks)}
        retriever = _retriever(documents, settings, chunks)
        return [
            [(position[hit.chunk.id], hit.score) for hit in retriever(question.text, DEPTH)] for question in questions
        ]

    ranked = sweep_cache.kept_json("retrievals", key, search)
    return [[Hit(chunks[i], score, rank) for rank, (i, score) in enumerate(hits, 1)] for hits in ranked]


def _retriever(documents: Sequence[Document], settings: Configuration, chunks: list[Chunk]) -> Retriever:
    retrievers: list[Retriever] = []
    name = settings["embedding.model"]
    if settings["retrieval.method"] in ("dense", "hybrid"):
        index = DenseIndex(chunks, _vectors(documents, settings, chunks))
        retrievers.append(dense_retriever(index, load_encoder(name)))
    if settings["retrieval.method"] in ("bm25", "hybrid"):
        retrievers.append(BM25Index(chunks).search)
    retriever = retrievers[0] if len(retrievers) == 1 else fused_retriever(retrievers)
    if settings["retrieval.rerank"] == "none":
        return retriever
    return reranking.rerank(retriever, _reranker(settings["retrieval.rerank"], name), DEPTH)


def _vectors(documents: Sequence[Document], settings: Configuration, chunks: list[Chunk]) -> Vectors:
    name, late = settings["embedding.model"], settings["embedding.late"]
    texts = [document.text for document in documents] if late else []
    key = content_key(
        sweep_cache.code("sweep_index"),
        sweep_cache.model_identity(name),
        late,
        texts,
        [[chunk.doc_id, chunk.start, chunk.end] if late else chunk.contextual_text for chunk in chunks],
    )

    return sweep_cache.kept_vectors(key, functools.partial(_embedded, documents, settings, chunks))


def _embedded(documents: Sequence[Document], settings: Configuration, chunks: list[Chunk]) -> Vectors:
    encoder = load_encoder(settings["embedding.model"])
    if settings["embedding.late"]:
        return encoder.encode_late_corpus(documents, chunks)
    return encoder.together([chunk.contextual_text for chunk in chunks])
