"""Chunks, vectors and the hits for every question, computed once per index and kept on disk.

The results are the same in every process: torch runs on one thread, and texts are embedded alone or in batches that
depend only on the chunks.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import rag_lab
from rag_lab import settings
from rag_lab.chunking import CHUNKERS
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.load import is_paid
from rag_lab.llm.local import LocalLLM
from rag_lab.models import hub
from rag_lab.models.encoder import Encoder, Kind, Vectors
from rag_lab.retrieval import rerankers
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.contextual import add_heading_context, generate_contexts
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.fusion import fused_retriever
from rag_lab.storage import cached_array, cached_json, content_key
from rag_lab.sweeps.config import DEPTH, KEYS, MODELS, SweepConfig
from rag_lab.types import Chunk, Document, Hit, Question, Retriever

# Raise this when a change in the package changes any row, completion, vector or ranking.
CACHE_VERSION = 2
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "rank-bm25", "regex")


def versions() -> list[Any]:
    """The versions of the code that computes: part of every cache key of a sweep."""
    return [CACHE_VERSION, rag_lab.__version__, *_library_versions()]


@functools.cache
def _library_versions() -> list[str]:
    return [metadata.version(library) for library in _LIBRARIES]


def model_identities(config: SweepConfig, *keys: str) -> list[Any]:
    """What tells the models under these keys, local or paid, from others of the same name."""
    names = {getattr(config, KEYS[key]) for key in keys}
    if "query_likelihood" in names:
        names.add("smollm2")
    models = sorted(names.difference(*MODELS.values()))
    return [ClaudeLLM(name).name if is_paid(name) else hub.model_identity(name) for name in models]


def folder() -> Path:
    """``sweeps`` in the cache folder."""
    return settings.cache_folder() / "sweeps"


class CachingEncoder(Encoder):
    """Embeds each text alone, since a batch changes the rounding, and once, since sentences recur in many chunks."""

    @functools.cached_property
    def _alone(self) -> Any:
        embed = super().encode
        return functools.lru_cache(maxsize=100_000)(lambda text, kind, limit: embed([text], kind, limit)[0])

    def encode(self, texts: Sequence[str], kind: Kind = "passage", max_tokens: int | None = None) -> Vectors:
        """As ``Encoder.encode``."""
        vectors = [self._alone(text, kind, max_tokens) for text in texts]
        return np.array(vectors, np.float32).reshape(len(texts), self.dimension)

    def encode_batched(self, texts: Sequence[str]) -> Vectors:
        """Passages in batches, which is faster."""
        return super().encode(texts)


@functools.cache
def load_encoder(name: str) -> CachingEncoder:
    """The encoder, loaded once per process."""
    return CachingEncoder.load(name, allow_remote_code=settings.allow_remote_code())


def load_llm(name: str) -> LanguageModel:
    """The language model; a local one is loaded once per process. A paid one bounds token counts without any call."""
    return ClaudeLLM(name, count_exactly=False) if is_paid(name) else _load_local(name)


_load_local = functools.cache(LocalLLM.load)


@functools.cache
def _reranker(name: str, encoder: str) -> rerankers.Reranker:
    if name == "max_sim":
        return rerankers.with_first_stage(rerankers.max_sim(load_encoder(encoder)))
    if name == "query_likelihood":
        return rerankers.with_first_stage(rerankers.query_likelihood(_load_local("smollm2")))
    return rerankers.cross_encoder(name)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: the way sums are split among threads changes their rounding."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def cut(documents: Sequence[Document], config: SweepConfig) -> list[Chunk]:
    """The chunks of all documents, with their context. Raises ValueError if there is none."""
    options: dict[str, Any] = {"size": config.chunking_chunk_size, "overlap": config.chunking_overlap}
    if config.chunking_strategy == "by_tokens":
        options["tokenizer"] = load_encoder(config.embedding_model).tokenizer
    chunks: list[Chunk] = []
    for document in documents:
        found = CHUNKERS[config.chunking_strategy](document, **options)
        chunks += add_heading_context(document, found) if config.context_method == "headings" else found
    if not chunks:
        raise ValueError(f"{config.chunking_strategy} found no text in the {len(documents)} documents.")
    if config.context_method == "llm":
        from filelock import FileLock

        folder().mkdir(parents=True, exist_ok=True)
        with FileLock(folder() / "contexts.lock"):  # another process may need the same contexts
            chunks = [chunk for chunk, _ in generate_contexts(documents, chunks, load_llm(config.context_model))]
    return chunks


def retrieved(
    documents: Sequence[Document], questions: Sequence[Question], config: SweepConfig, chunks: list[Chunk]
) -> list[list[Hit]]:
    """The first ``DEPTH`` hits for each question, from disk if they were found before."""
    key = content_key(
        versions(),
        [config.retrieval_method, config.retrieval_rerank, config.embedding_late],
        model_identities(config, "embedding.model", "retrieval.rerank"),
        [[chunk.id, chunk.contextual_text, chunk.start] for chunk in chunks],
        [document.text for document in documents] if config.embedding_late else "",
        [question.text for question in questions],
    )

    def search() -> list[list[tuple[int, float]]]:
        position = {chunk.id: i for i, chunk in enumerate(chunks)}
        retriever = _retriever(documents, config, chunks)
        return [[(position[hit.chunk.id], hit.score) for hit in retriever(q.text, DEPTH)] for q in questions]

    ranked = cached_json("sweeps/retrievals", key, search)
    return [[Hit(chunks[i], score, rank) for rank, (i, score) in enumerate(hits, 1)] for hits in ranked]


def _retriever(documents: Sequence[Document], config: SweepConfig, chunks: list[Chunk]) -> Retriever:
    retrievers: list[Retriever] = []
    if config.retrieval_method in ("dense", "hybrid"):
        index = DenseIndex(chunks, _vectors(documents, config, chunks))
        retrievers.append(dense_retriever(index, load_encoder(config.embedding_model)))
    if config.retrieval_method in ("bm25", "hybrid"):
        retrievers.append(BM25Index(chunks).search)
    retriever = retrievers[0] if len(retrievers) == 1 else fused_retriever(retrievers)
    if config.retrieval_rerank == "none":
        return retriever
    return rerankers.rerank(retriever, _reranker(config.retrieval_rerank, config.embedding_model), DEPTH)


def _vectors(documents: Sequence[Document], config: SweepConfig, chunks: list[Chunk]) -> Vectors:
    key = content_key(
        versions(),
        model_identities(config, "embedding.model"),
        [document.text for document in documents] if config.embedding_late else "",
        [[c.doc_id, c.start, c.end] if config.embedding_late else c.contextual_text for c in chunks],
    )

    def embed() -> Vectors:
        encoder = load_encoder(config.embedding_model)
        if config.embedding_late:
            return encoder.encode_late_corpus(documents, chunks)
        return encoder.encode_batched([chunk.contextual_text for chunk in chunks])

    return cached_array("sweeps/vectors", key, embed)
