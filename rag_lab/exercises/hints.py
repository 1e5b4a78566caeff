"""What the checks share: hints for numbers that are slightly off, and recall with each sentence as a chunk."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.evaluate import dense_span_recalls
from rag_lab.types import Chunk, Question


def number_hint(
    attempt: float, right: float, slips: Mapping[float, str], otherwise: str, rel: float = 0.005, abs_: float = 1e-9
) -> str | None:
    """None if ``attempt`` is ``right``; else the hint of the slip whose result it is, or ``otherwise``.

    ``rel`` and ``abs_`` are the tolerances of ``math.isclose``.
    """
    for number, hint in [(right, None), *slips.items()]:
        if math.isclose(attempt, number, rel_tol=rel, abs_tol=abs_):
            return hint
    return otherwise


def recalls(
    chunks: Sequence[Chunk], texts: Sequence[str], questions: Sequence[Question], encoder: Encoder, k: int
) -> np.ndarray:
    """Span recall@k of each question (n,) by dense search, where ``texts`` are embedded instead of the chunks."""
    queries = encoder.encode([question.text for question in questions], kind="query")
    return dense_span_recalls(DenseIndex(chunks, encoder.encode(texts)), queries, questions, [k])[k]
