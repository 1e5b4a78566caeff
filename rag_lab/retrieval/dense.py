"""Exact dense search. A retriever is any ``callable(question, k) -> list[Hit]``."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.indexes import load_chunks, save_chunks, top_k
from rag_lab.storage import write_atomic
from rag_lab.types import Chunk, Hit, Retriever, Where


class DenseIndex:
    """Exact search over all vectors by inner product, which is the cosine if they are L2-normalised."""

    def __init__(self, chunks: Sequence[Chunk], vectors: ArrayLike) -> None:
        """``vectors``: (n, d), row i for chunk i, as float32. Raises ValueError on other shapes, NaN or infinity."""
        self.chunks = tuple(chunks)
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.chunks):
            raise ValueError(f"{len(self.chunks)} chunks need as many rows; the vectors are {self.vectors.shape}.")
        _check_finite(self.vectors)

    def search(self, query_vector: ArrayLike, k: int, where: Where | None = None) -> list[Hit]:
        """The ``k`` best chunks that satisfy ``where``, or fewer if there are fewer; ties in the order indexed.

        Scores are rounded to six decimals: their last bits depend on the row's place in memory, which would decide
        ties. Raises ValueError if the query has another dimension, NaN or infinity, or if k < 1.
        """
        query = np.asarray(query_vector, dtype=np.float32)
        if query.shape != self.vectors.shape[1:]:
            raise ValueError(f"the query's shape is {query.shape}; the index holds {self.vectors.shape[1:]}.")
        _check_finite(query)
        scores = (self.vectors @ query).round(6)
        return top_k(self.chunks, scores, np.arange(len(scores)), k, where)

    def save(self, folder: str | Path) -> None:
        """Write ``chunks.jsonl`` and ``vectors.npz`` to ``folder``; each replaces an older file atomically."""
        file = io.BytesIO()
        np.savez(file, vectors=self.vectors, chunks_sha256=save_chunks(self.chunks, Path(folder)))
        write_atomic(Path(folder) / "vectors.npz", file.getvalue())

    @classmethod
    def load(cls, folder: str | Path) -> "DenseIndex":
        """What ``save`` wrote. Raises FileNotFoundError if a file is missing, ValueError if the two do not match."""
        with np.load(Path(folder) / "vectors.npz", allow_pickle=False) as file:
            return cls(load_chunks(Path(folder), str(file["chunks_sha256"])), file["vectors"])


def dense_retriever(index: DenseIndex, encoder: Encoder, where: Where | None = None) -> Retriever:
    """Search ``index`` with questions embedded by ``encoder``, which must have embedded the chunks too."""
    return lambda question, k: index.search(encoder.encode([question], kind="query")[0], k, where)


def _check_finite(vectors: NDArray[np.float32]) -> None:
    if bad := int(np.count_nonzero(~np.isfinite(vectors))):
        raise ValueError(f"{bad} of {vectors.size} vector components are NaN or infinite.")
