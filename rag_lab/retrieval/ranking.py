"""TODO"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_lab.types import Chunk, Hit, Where


def best_hits(
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


def save_chunks(chunks: Sequence[Chunk], folder: Path) -> str:
    """Write ``chunks.jsonl``; its SHA-256, which the index's other file keeps, so that the two cannot be mixed up."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(asdict(chunk), ensure_ascii=False) + "\n" for chunk in chunks)
    write_text(folder / "chunks.jsonl", text)
    return hashlib.sha256(text.encode()).hexdigest()


def load_chunks(folder: Path, digest: str) -> list[Chunk]:
    data = (folder / "chunks.jsonl").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{folder / 'chunks.jsonl'} is not what this index was saved with; index the chunks anew.")
    records = [json.loads(line) for line in data.decode().split("\n")[:-1]]
    return [Chunk(**record | {"section_path": tuple(record["section_path"])}) for record in records]


def write_text(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(text.encode())
    os.replace(part, path)
