"""Scores of a retriever over questions, one value per question, so that retrievers can be compared in pairs."""

from collections.abc import Iterable, Sequence

import numpy as np

from rag_lab.metrics import span_recall
from rag_lab.models.encoder import Vectors
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.types import Hit, Question, Retriever


def span_recalls(retriever: Retriever, questions: Sequence[Question], ks: Iterable[int]) -> dict[int, np.ndarray]:
    """For each k, the share of each question's gold characters that the top k chunks cover: arrays (n,) in [0, 1].

    Each question is searched once, at the largest k. Raises ValueError if a question has no gold.
    """
    ks = sorted(set(ks))
    scores: dict[int, list[float]] = {k: [] for k in ks}
    for question in questions:
        hits = retriever(question.text, ks[-1])
        for k in ks:
            scores[k].append(span_recall([hit.chunk for hit in hits[:k]], question.gold))
    return {k: np.array(values) for k, values in scores.items()}


def dense_span_recalls(
    index: DenseIndex, queries: Vectors, questions: Sequence[Question], ks: Iterable[int]
) -> dict[int, np.ndarray]:
    """``span_recalls`` of exact search with the questions' vectors (n, d), embedded once for many indexes."""
    vectors = {question.text: query for question, query in zip(questions, queries, strict=True)}
    return span_recalls(lambda text, k: index.search(vectors[text], k), questions, ks)


def rank_documents(hits: Sequence[Hit]) -> list[str]:
    """Document ids by their best chunk, each once: how chunked documents are ranked for BEIR."""
    return list(dict.fromkeys(hit.chunk.doc_id for hit in hits))
