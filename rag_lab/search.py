"""Exact dense search, BM25, and the fusion of rankings. A retriever is any ``callable(question, k) -> list[Hit]``."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import rank_bm25
from numpy.typing import ArrayLike, NDArray

from rag_lab.documents import Chunk
from rag_lab.encoder import Encoder
from rag_lab.tokens import tokenize


@dataclass(frozen=True)
class Hit:
    """A chunk that was found, its score (higher is better; comparable within one search) and its rank from 1."""

    chunk: Chunk
    score: float
    rank: int


Retriever = Callable[[str, int], list[Hit]]
Where = Callable[[Chunk], bool]
Engine = Literal["rank_bm25", "bm25s"]


class DenseIndex:
    """Exact search over all vectors by inner product, which is the cosine where they are L2-normalised."""

    def __init__(self, chunks: Sequence[Chunk], vectors: ArrayLike) -> None:
        """``vectors``: (n, d), row i for chunk i, kept as float32. ValueError for other shapes, NaN or infinity."""
        self.chunks = tuple(chunks)
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.chunks):
            raise ValueError(f"{len(self.chunks)} chunks need as many rows; the vectors are {self.vectors.shape}.")
        _check_finite(self.vectors)

    def search(self, query_vector: ArrayLike, k: int, where: Where | None = None) -> list[Hit]:
        """The ``k`` best chunks, or as many as there are, that satisfy ``where``; equal scores in the order indexed.

        Scores are rounded to six decimals: the last bits depend on where a row lies in memory, and would order equal
        texts by it. ValueError for a query of another dimension, with NaN or infinity, or k < 1.
        """
        query = np.asarray(query_vector, dtype=np.float32)
        if query.shape != self.vectors.shape[1:]:
            raise ValueError(f"the query's shape is {query.shape}; the index holds {self.vectors.shape[1:]}.")
        _check_finite(query)
        scores = (self.vectors @ query).round(6)
        return _best(self.chunks, scores, np.arange(len(scores)), k, where)

    def save(self, folder: str | Path) -> None:
        """Write ``chunks.jsonl`` and ``vectors.npz`` to ``folder``; each replaces an older one whole."""
        digest = _save_chunks(self.chunks, Path(folder))
        part = Path(folder) / "vectors.part.npz"
        np.savez(part, vectors=self.vectors, chunks_sha256=digest)
        os.replace(part, Path(folder) / "vectors.npz")

    @classmethod
    def load(cls, folder: str | Path) -> "DenseIndex":
        """What ``save`` wrote. FileNotFoundError where nothing is; ValueError for chunks of another index."""
        with np.load(Path(folder) / "vectors.npz", allow_pickle=False) as file:
            return cls(_load_chunks(Path(folder), str(file["chunks_sha256"])), file["vectors"])


class BM25Index:
    """BM25 over ``chunk.contextual_text``, with terms from ``tokens.tokenize``.

    The weight of a term is Lucene's: ln(1 + (N - n + 0.5) / (n + 0.5)) · tf / (tf + k1 · (1 - b + b · length / mean
    length)), as in Kamphuis et al. 2020 ("Which BM25 Do You Mean?"), for both engines. It is above zero for every
    term a chunk holds, zero for every other, and below the IDF however often a term is repeated. None of rank-bm25's
    own variants is all of that: Okapi's IDF is zero for a term in half of the chunks and negative beyond, Plus gives
    a score to chunks without the term, and L, as written there, grows with the count without bound.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        engine: Engine = "rank_bm25",
        stem: str | None = None,
        stop_words: frozenset[str] = frozenset(),
        k1: float = 1.5,
        b: float = 0.75,
    ) -> None:
        """``engine`` "bm25s" (an extra) needs less memory when large; ``stem`` and ``stop_words`` as in ``tokenize``.

        ValueError for no chunks, none with a term, or an unknown engine; ImportError for an engine or stemmer that
        is not installed.
        """
        if not chunks:
            raise ValueError("there are no chunks to index.")
        if engine not in ("rank_bm25", "bm25s"):
            raise ValueError(f"there is no engine {engine!r}; there are rank_bm25 and bm25s.")
        self.chunks = tuple(chunks)
        self.options = {"engine": engine, "stem": stem, "stop_words": sorted(stop_words), "k1": k1, "b": b}
        self._tokenize = partial(tokenize, stem=stem, stop_words=frozenset(stop_words))
        texts = [self._tokenize(chunk.contextual_text) for chunk in self.chunks]
        if not any(texts):
            raise ValueError(f"none of the {len(texts)} chunks holds a letter or digit: there is nothing to index.")
        self._scores = (_bm25s_scores if engine == "bm25s" else _rank_bm25_scores)(texts, k1, b)

    def search(self, text: str, k: int, where: Where | None = None) -> list[Hit]:
        """The ``k`` best of the chunks that hold a term of ``text`` and satisfy ``where``; often fewer, or none.

        Equal scores in the order indexed. A term that stands twice in ``text`` counts twice. ValueError for k < 1.
        """
        scores = self._scores(self._tokenize(text, query=True))
        return _best(self.chunks, scores, np.flatnonzero(scores > 0), k, where)

    def save(self, folder: str | Path) -> None:
        """Write ``chunks.jsonl`` and ``bm25.json`` (the options) to ``folder``; each replaces an older one whole."""
        digest = _save_chunks(self.chunks, Path(folder))
        _write(Path(folder) / "bm25.json", json.dumps(self.options | {"chunks_sha256": digest}))

    @classmethod
    def load(cls, folder: str | Path) -> "BM25Index":
        """What ``save`` wrote, indexed anew. FileNotFoundError and ValueError as for ``DenseIndex.load``."""
        options = json.loads((Path(folder) / "bm25.json").read_text(encoding="utf-8"))
        chunks = _load_chunks(Path(folder), options.pop("chunks_sha256"))
        return cls(chunks, **options | {"stop_words": frozenset(options["stop_words"])})


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Hit]], k: float = 60, weights: Sequence[float] | None = None
) -> list[Hit]:
    """Fuse rankings by the sum over them of weight / (k + rank) (Cormack, Clarke & Büttcher 2009, who set k = 60).

    Chunks are told apart by id. One that a ranking lacks gets nothing from it; one that it repeats counts once, at
    its best rank. Equal scores stand in the order in which the rankings first bring them. ValueError for another
    number of weights than of rankings, a weight that is negative or not finite, or a negative ``k``.
    """
    weights = [1.0] * len(rankings) if weights is None else weights
    if len(weights) != len(rankings):
        raise ValueError(f"there are {len(rankings)} rankings and {len(weights)} weights; give one for each.")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or k < 0:
        raise ValueError(f"weights {list(weights)} and k {k} must be finite and not negative.")
    chunks: dict[str, Chunk] = {}
    shares: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        best: dict[str, int] = {}
        for hit in ranking:
            best[hit.chunk.id] = min(hit.rank, best.get(hit.chunk.id, hit.rank))
            chunks.setdefault(hit.chunk.id, hit.chunk)
        for id_, rank in best.items():
            shares.setdefault(id_, []).append(weight / (k + rank))
    scores = {id_: math.fsum(parts) for id_, parts in shares.items()}  # exact, so that ties are ties in any order
    ordered = sorted(scores, key=lambda id_: -scores[id_])
    return [Hit(chunks[id_], scores[id_], rank) for rank, id_ in enumerate(ordered, 1)]


def dense_retriever(index: DenseIndex, encoder: Encoder, where: Where | None = None) -> Retriever:
    """Search ``index`` with questions embedded by ``encoder``, which embedded the chunks too."""
    return lambda question, k: index.search(encoder.encode([question], kind="query")[0], k, where)


def fused_retriever(
    retrievers: Sequence[Retriever], weights: Sequence[float] | None = None, depth: int = 100
) -> Retriever:
    """The best of several retrievers by reciprocal rank fusion; each is asked for ``depth`` hits, or k if more."""

    def retrieve(question: str, k: int) -> list[Hit]:
        rankings = [retriever(question, max(k, depth)) for retriever in retrievers]
        return reciprocal_rank_fusion(rankings, weights=weights)[:k]

    return retrieve


def _best(
    chunks: Sequence[Chunk], scores: NDArray[Any], candidates: NDArray[np.intp], k: int, where: Where | None
) -> list[Hit]:
    """The ``k`` candidates (positions) of the highest scores, equal ones in order of position."""
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more.")
    if where is not None:
        candidates = candidates[[bool(where(chunks[i])) for i in candidates]]
    if k < len(candidates):  # drop what lies below the k-th score; sort only the rest
        candidates = candidates[scores[candidates] >= np.partition(scores[candidates], -k)[-k]]
    order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return [Hit(chunks[i], float(scores[i]), rank) for rank, i in enumerate(order, 1)]


def _rank_bm25_scores(texts: list[list[str]], k1: float, b: float) -> Callable[[list[str]], NDArray[Any]]:
    """Scores of a query's terms for every text, from what rank-bm25 counts.

    rank-bm25's own scoring looks every term up in every text; postings (the texts that hold a term, and the term's
    weight in each) are built once and looked up once a term.
    """
    counts = rank_bm25.BM25Okapi(texts)
    vocabulary = {term: i for i, term in enumerate(counts.idf)}
    sizes = np.fromiter(map(len, counts.doc_freqs), np.int64)
    terms = np.fromiter((vocabulary[t] for text in counts.doc_freqs for t in text), np.int32, sizes.sum())
    tf = np.fromiter((n for text in counts.doc_freqs for n in text.values()), np.float64, sizes.sum())
    holders = np.repeat(np.arange(len(texts)), sizes)
    n = np.bincount(terms, minlength=len(vocabulary))
    idf = np.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
    length = np.array(counts.doc_len)[holders]
    weights = idf[terms] * tf / (tf + k1 * (1 - b + b * length / counts.avgdl))
    order = np.argsort(terms, kind="stable")
    holders, weights = holders[order], weights[order]
    ends = np.cumsum(n)

    def scores(query: list[str]) -> NDArray[Any]:
        total = np.zeros(len(texts))
        for i in (vocabulary[term] for term in query if term in vocabulary):
            postings = slice(ends[i] - n[i], ends[i])
            total[holders[postings]] += weights[postings]
        return total

    return scores


def _bm25s_scores(texts: list[list[str]], k1: float, b: float) -> Callable[[list[str]], NDArray[Any]]:
    try:
        import bm25s
    except ImportError as error:
        raise ImportError('engine="bm25s" needs bm25s: pip install bm25s, or leave the engine out.') from error
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index(texts, show_progress=False)

    def scores(query: list[str]) -> NDArray[Any]:
        known = index.get_tokens_ids(query)
        return index.get_scores_from_ids(known) if known else np.zeros(len(texts))

    return scores


def _check_finite(vectors: NDArray[np.float32]) -> None:
    if bad := int(np.count_nonzero(~np.isfinite(vectors))):
        raise ValueError(f"{bad} of {vectors.size} vector components are NaN or infinite.")


def _save_chunks(chunks: Sequence[Chunk], folder: Path) -> str:
    """Write ``chunks.jsonl``; its SHA-256, which the index's other file keeps, so that the two cannot be mixed up."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(asdict(chunk), ensure_ascii=False) + "\n" for chunk in chunks)
    _write(folder / "chunks.jsonl", text)
    return hashlib.sha256(text.encode()).hexdigest()


def _load_chunks(folder: Path, digest: str) -> list[Chunk]:
    data = (folder / "chunks.jsonl").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{folder / 'chunks.jsonl'} is not what this index was saved with; index the chunks anew.")
    records = [json.loads(line) for line in data.decode().split("\n")[:-1]]
    return [Chunk(**record | {"section_path": tuple(record["section_path"])}) for record in records]


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(text.encode())
    os.replace(part, path)
