"""Chunks and hits for tests of retrieval."""

from collections.abc import Sequence

from rag_lab.types import Chunk, Hit


def chunks_of(*texts: str) -> list[Chunk]:
    """One chunk per text, all of one document."""
    return [Chunk("doc", i, text, 0, len(text)) for i, text in enumerate(texts)]


def found(hits: Sequence[Hit]) -> list[int]:
    """The index of each hit's chunk; the ranks must be 1, 2, 3 …"""
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [hit.chunk.index for hit in hits]
