"""Published rows of contextual retrieval: the cookbook's four configurations, and Merola and Singh's."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from rag_lab import datasets
from rag_lab.chunking import chunk_tokens
from rag_lab.contextual import add_heading_context, situate
from rag_lab.datasets import RetrievalSet
from rag_lab.documents import Chunk, Document
from rag_lab.encoder import Encoder
from rag_lab.evaluation import rank_documents
from rag_lab.metrics import bootstrap_ci, ndcg_at_k, paired_difference, recall_at_k
from rag_lab.papers import Comparison, in_percent, published
from rag_lab.reproduce_models import Models, kept_vectors
from rag_lab.reproduce_retrieval import whole_texts
from rag_lab.reranking import rerank
from rag_lab.search import BM25Index, DenseIndex, Hit, Retriever, fused_retriever, reciprocal_rank_fusion

KS = (5, 10, 20)
COOKBOOK_DEPTH = 150  # hits of each search that the cookbook fuses
COOKBOOK_RERANKED = 10  # times k: dense hits that the cookbook reranks
MEROLA_SHARE = 0.2  # of NFCorpus
MEROLA_TOKENS = 512
NAMES = 12  # that stand for a file of code
# What a line of Rust, C, Python, Go or JavaScript declares, up to its brace or end.
DECLARED = re.compile(
    r"^[ \t]*(?:(?:pub(?:\([a-z]+\))?|export|static|async|default|abstract)[ \t]+)*"
    r"(?:fn|struct|enum|trait|impl|mod|def|class|interface|func|type|function|macro_rules!)\b[ \t]+([^\n{:;]+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Searches:
    """Dense search and BM25 over one set of chunks, with its questions embedded once."""

    dense: Retriever
    terms: Retriever


def cookbook(models: Models) -> list[Comparison]:
    """Recall of golden chunks at 5, 10 and 20 in percent, which the cookbook calls Pass@k, for its configurations.

    BM25 is fused as there, 0.8 / rank + 0.2 / rank without a constant, and beside it by standard RRF. The published
    gains are over dense search.
    """
    code = datasets.load_codebases()
    encoder = models.load_encoder()
    reranker = models.load_reranker(encoder)
    asked = models.few(list(code.queries))
    situated = _contexts(code.documents, code.chunks, models, declared_names)
    plain, contextual = (_searches(encoder, chunks, code, asked) for chunks in (code.chunks, situated))
    rungs: dict[str, Retriever] = {
        "dense": plain.dense,
        "contextual dense": contextual.dense,
        "+ contextual BM25": cookbook_fusion(contextual.dense, contextual.terms),
        "+ contextual BM25, by RRF": fused_retriever([contextual.dense, contextual.terms], depth=COOKBOOK_DEPTH),
        "contextual dense + reranker": rerank(contextual.dense, reranker, COOKBOOK_RERANKED * KS[-1]),
    }
    paper = published("cookbook_codebases").values
    rows, base = [], _recalls(rungs["dense"], code, asked)
    for name, search in rungs.items():
        found = base if name == "dense" else _recalls(search, code, asked)
        figures = paper.get(name, [None] * len(KS))
        for k, figure in zip(KS, figures, strict=True):
            measured = in_percent(bootstrap_ci(found[k]))
            rows.append(Comparison(f"{name}, recall@{k}", figure, measured, shown=False))
        if name != "dense":
            gain = None if figures[-1] is None else round(figures[-1] - paper["dense"][-1], 6)
            measured = in_percent(paired_difference(found[KS[-1]], base[KS[-1]]))
            rows.append(Comparison(f"{name} − dense, recall@20", gain, measured, is_gain=True))
    return rows


def cookbook_fusion(dense: Retriever, terms: Retriever) -> Retriever:
    """The cookbook's own fusion: 0.8 / rank + 0.2 / rank over the 150 best of each, with no constant."""

    def retrieve(question: str, k: int) -> list[Hit]:
        rankings = [search(question, max(k, COOKBOOK_DEPTH)) for search in (dense, terms)]
        return reciprocal_rank_fusion(rankings, k=0, weights=[0.8, 0.2])[:k]

    return retrieve


def merola_contextual(models: Models) -> list[Comparison]:
    """A fifth of NFCorpus: nDCG@5 and @10, dense and fused with reranking, without and with context.

    Which documents theirs were is not known; here they are drawn with a fixed seed.
    """
    whole = datasets.load_nfcorpus()
    fifth = a_fifth(whole)
    encoder = models.load_encoder()
    reranker = models.load_reranker(encoder)
    documents = whole_texts(fifth)
    chunks = [chunk for d in documents for chunk in chunk_tokens(d, MEROLA_TOKENS, 0, encoder.tokenizer)]
    situated = _contexts(documents, chunks, models, add_heading_context)
    asked = models.few(list(fifth.queries))
    paper = published("merola_contextual_nfcorpus").values
    rows, found = [], {}
    for name, pieces in (("without context", chunks), ("with context", situated)):
        one = _searches(encoder, pieces, fifth, asked)
        both = fused_retriever([one.dense, one.terms])
        for way, search in (("dense", one.dense), ("fusion and reranker", rerank(both, reranker))):
            for place, k in enumerate((5, 10)):
                values = found[name, way, k] = _document_ndcg(search, fifth, asked, k)
                figure = paper[name][way][place]
                rows.append(Comparison(f"{name}, {way}, nDCG@{k}", figure, bootstrap_ci(values), shown=False))
    for way in ("dense", "fusion and reranker"):
        gain = round(paper["with context"][way][0] - paper["without context"][way][0], 6)
        measured = paired_difference(found["with context", way, 5], found["without context", way, 5])
        rows.append(Comparison(f"with − without context, {way}, nDCG@5", gain, measured, is_gain=True))
    return rows


def a_fifth(data: RetrievalSet) -> RetrievalSet:
    """A fifth of the documents, drawn with seed 0, and the queries that still have a relevant one."""
    drawn = random.Random(0).sample(range(len(data.documents)), round(len(data.documents) * MEROLA_SHARE))
    documents = tuple(data.documents[i] for i in sorted(drawn))
    ids = {document.id for document in documents}
    relevance = {
        query: kept
        for query, labels in data.relevance.items()
        if (kept := {id_: grade for id_, grade in labels.items() if id_ in ids})
    }
    return replace(data, documents=documents, relevance=relevance, queries={q: data.queries[q] for q in relevance})


def declared_names(document: Document, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Chunks with the first twelve names that their file declares as context: what headings are to prose.

    The cookbook's data has no file names.
    """
    names = list(dict.fromkeys(match[1].strip() for match in DECLARED.finditer(document.text)))[:NAMES]
    return [replace(chunk, context=f"Defines {', '.join(names)}" if names else "") for chunk in chunks]


def _contexts(
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    models: Models,
    without_model: Callable[[Document, Sequence[Chunk]], list[Chunk]],
) -> list[Chunk]:
    """The chunks, in their order, with context by ``models.llm`` or, where there is none, without a model."""
    if models.llm:
        written = (chunk for chunk, _ in situate(documents, chunks, models.load_llm()))
    else:
        by_document: dict[str, list[Chunk]] = {document.id: [] for document in documents}
        for chunk in chunks:
            by_document[chunk.doc_id].append(chunk)
        written = (c for document in documents for c in without_model(document, by_document[document.id]))
    by_id = {chunk.id: chunk for chunk in written}
    return [by_id[chunk.id] for chunk in chunks]


def _searches(encoder: Encoder, chunks: Sequence[Chunk], data: RetrievalSet, asked: Sequence[str]) -> Searches:
    texts = [chunk.contextual_text for chunk in chunks]
    index = DenseIndex(chunks, kept_vectors(encoder, ["naive", texts], lambda: encoder.encode(texts)))
    questions = list(dict.fromkeys(data.queries[id_] for id_ in asked))
    vectors = dict(zip(questions, encoder.encode(questions, kind="query"), strict=True))
    return Searches(lambda question, k: index.search(vectors[question], k), BM25Index(chunks).search)


def _recalls(search: Retriever, data: RetrievalSet, asked: Sequence[str]) -> dict[int, np.ndarray]:
    """Share of each question's golden chunks among the first k: arrays (n,) by k."""

    @cache
    def ranking(question: str) -> list[str]:
        return [hit.chunk.id for hit in search(question, KS[-1])]

    return {
        k: np.array([recall_at_k(ranking(data.queries[id_]), data.relevance[id_], k) for id_ in asked]) for k in KS
    }


def _document_ndcg(search: Retriever, data: RetrievalSet, asked: Sequence[str], k: int) -> np.ndarray:
    return np.array(
        [ndcg_at_k(rank_documents(search(data.queries[id_], 4 * k)), data.relevance[id_], k) for id_ in asked]
    )
