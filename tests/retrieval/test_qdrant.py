"""A vector store as a retriever: Qdrant, in local mode, with our vectors, and the chunks with contexts as payload."""

from dataclasses import asdict

import numpy as np
import pytest

from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.fusion import fused_retriever
from rag_lab.types import Chunk, Hit, Retriever

qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is an extra: pip install qdrant-client")

QUESTIONS = {"what does amendment 7 change": 7, "and amendment 21": 21}


def chunks_with_vectors() -> tuple[list[Chunk], np.ndarray]:
    chunks = [
        Chunk("policy", i, f"Amendment {i} doubles it.", 0, 1, section_path=("Changes",), context=f"Line {i}.")
        for i in range(40)
    ]
    vectors = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    return chunks, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def question_vector(question: str, vectors: np.ndarray) -> np.ndarray:
    """Near the vector of the chunk that the question asks for."""
    noise = np.random.default_rng(1).normal(size=16) / 10
    return (vectors[QUESTIONS[question]] + noise).astype(np.float32)


def qdrant_retriever(chunks: list[Chunk], vectors: np.ndarray) -> Retriever:
    """What a reader would write: fill a collection once, ask it for points, and make hits of their payloads."""
    models = qdrant.models
    client = qdrant.QdrantClient(":memory:")
    size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT)
    client.create_collection("chunks", vectors_config=size)
    points = [
        models.PointStruct(id=i, vector=vector.tolist(), payload=asdict(chunk))
        for i, (chunk, vector) in enumerate(zip(chunks, vectors, strict=True))
    ]
    client.upsert("chunks", points, wait=True)

    def retrieve(question: str, k: int) -> list[Hit]:
        vector = question_vector(question, vectors).tolist()
        found = client.query_points("chunks", query=vector, limit=k, with_payload=True).points
        chunks = [Chunk(**p.payload | {"section_path": tuple(p.payload["section_path"])}) for p in found]
        return [Hit(chunk, p.score, rank) for rank, (chunk, p) in enumerate(zip(chunks, found, strict=True), 1)]

    return retrieve


@pytest.mark.parametrize("question", QUESTIONS)
def test_qdrant_finds_what_the_dense_index_finds(question: str) -> None:
    chunks, vectors = chunks_with_vectors()
    ours = DenseIndex(chunks, vectors).search(question_vector(question, vectors), 10)
    theirs = qdrant_retriever(chunks, vectors)(question, 10)
    assert ours[0].chunk.index == QUESTIONS[question]
    assert [hit.chunk for hit in theirs] == [hit.chunk for hit in ours]  # context and section path included
    assert [hit.score for hit in theirs] == pytest.approx([hit.score for hit in ours], abs=1e-5)


def test_qdrant_takes_its_place_in_a_fused_retriever() -> None:
    chunks, vectors = chunks_with_vectors()
    fused = fused_retriever([qdrant_retriever(chunks, vectors), BM25Index(chunks).search])
    for question, wanted in QUESTIONS.items():
        assert fused(question, 3)[0].chunk == chunks[wanted]
