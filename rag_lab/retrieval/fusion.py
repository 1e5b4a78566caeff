"""TODO"""

import math
from collections.abc import Sequence

from rag_lab.types import Chunk, Hit, Retriever


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


def fused_retriever(
    retrievers: Sequence[Retriever], weights: Sequence[float] | None = None, depth: int = 100
) -> Retriever:
    """The best of several retrievers by reciprocal rank fusion; each is asked for ``depth`` hits, or k if more."""

    def retrieve(question: str, k: int) -> list[Hit]:
        rankings = [retriever(question, max(k, depth)) for retriever in retrievers]
        return reciprocal_rank_fusion(rankings, weights=weights)[:k]

    return retrieve
