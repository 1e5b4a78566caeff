"""Fusing the rankings of several retrievers."""

import math
from collections.abc import Sequence

from rag_lab.types import Chunk, Hit, Retriever


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Hit]], k: float = 60, weights: Sequence[float] | None = None
) -> list[Hit]:
    """Fuse rankings by the sum over them of weight / (k + rank) (Cormack, Clarke & Büttcher 2009, who set k = 60).

    Chunks are identified by id. A chunk gets nothing from a ranking without it, and counts once, at its best rank, if
    it is repeated. Ties are in the order of first appearance. Raises ValueError if there is not one weight per
    ranking, a weight is negative or not finite, or ``k`` is negative.
    """
    weights = [1.0] * len(rankings) if weights is None else weights
    if len(weights) != len(rankings):
        raise ValueError(f"There are {len(rankings)} rankings and {len(weights)} weights; give one for each.")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or k < 0:
        raise ValueError(f"Weights {list(weights)} and k {k} must be finite and not negative.")
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
    """Several retrievers fused by reciprocal rank; each retrieves ``depth`` hits, or k if that is more."""

    def retrieve(question: str, k: int) -> list[Hit]:
        rankings = [retriever(question, max(k, depth)) for retriever in retrievers]
        return reciprocal_rank_fusion(rankings, weights=weights)[:k]

    return retrieve
