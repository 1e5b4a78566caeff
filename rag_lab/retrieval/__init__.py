"""Search: dense, BM25, their fusion, context for chunks, rerankers and recall."""

from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, BM25Index, analyze
from rag_lab.retrieval.contextual import add_heading_context, add_llm_context, context_prompt, generate_contexts
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.evaluate import dense_span_recalls, rank_documents, span_recalls
from rag_lab.retrieval.fusion import fused_retriever, reciprocal_rank_fusion
from rag_lab.retrieval.rerankers import cross_encoder, listwise, max_sim, query_likelihood, rerank, with_first_stage

__all__ = [
    "ENGLISH_STOP_WORDS",
    "BM25Index",
    "DenseIndex",
    "add_heading_context",
    "add_llm_context",
    "analyze",
    "context_prompt",
    "cross_encoder",
    "dense_retriever",
    "dense_span_recalls",
    "fused_retriever",
    "generate_contexts",
    "listwise",
    "max_sim",
    "query_likelihood",
    "rank_documents",
    "reciprocal_rank_fusion",
    "rerank",
    "span_recalls",
    "with_first_stage",
]
