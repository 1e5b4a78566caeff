"""What the dense index and the BM25 index share: picking the top k, and the file of their chunks."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_lab.storage import write_atomic
from rag_lab.types import Chunk, Hit, Where


def top_k(
    chunks: Sequence[Chunk], scores: NDArray[Any], candidates: NDArray[np.intp], k: int, where: Where | None
) -> list[Hit]:
    """The ``k`` candidates (positions) with the highest scores that satisfy ``where``; ties in order of position."""
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more.")
    if where is not None:
        candidates = candidates[[bool(where(chunks[i])) for i in candidates]]
    if k < len(candidates):  # sort only what reaches the k-th score
        candidates = candidates[scores[candidates] >= np.partition(scores[candidates], -k)[-k]]
    order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return [Hit(chunks[i], float(scores[i]), rank) for rank, i in enumerate(order, 1)]


def save_chunks(chunks: Sequence[Chunk], folder: Path) -> str:
    """Write ``chunks.jsonl`` and return its SHA-256; the index's other file keeps it, so that the two must match."""
    text = "".join(json.dumps(asdict(chunk), ensure_ascii=False) + "\n" for chunk in chunks)
    write_atomic(folder / "chunks.jsonl", text)
    return hashlib.sha256(text.encode()).hexdigest()


def load_chunks(folder: Path, digest: str) -> list[Chunk]:
    """What ``save_chunks`` wrote. Raises ValueError if the file's SHA-256 is not ``digest``."""
    data = (folder / "chunks.jsonl").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{folder / 'chunks.jsonl'} belongs to another index: index the chunks again.")
    records = [json.loads(line) for line in data.decode().split("\n")[:-1]]
    return [Chunk(**record | {"section_path": tuple(record["section_path"])}) for record in records]
