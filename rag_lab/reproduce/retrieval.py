"""Published rows of search without a language model: whole texts, BM25, late against naive, cross-encoders.

Published rows of contextual retrieval: the cookbook's four configurations, and Merola and Singh's.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from rag_lab import datasets
from rag_lab.chunking import chunk_corpus, chunk_sentences, chunk_tokens
from rag_lab.metrics import bootstrap_ci, ndcg_at_k, paired_difference, recall_at_k
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.reproduce.models import Models, kept_vectors
from rag_lab.results import Comparison, exactly, in_percent, published
from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, BM25Index
from rag_lab.retrieval.contextual import add_heading_context, situate
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.evaluate import rank_documents
from rag_lab.retrieval.fusion import fused_retriever, reciprocal_rank_fusion
from rag_lab.retrieval.rerankers import rerank
from rag_lab.types import Chunk, Document, Hit, RetrievalSet, Retriever

DEPTH = 10
SERIES = (16, 32, 64, 128, 256)  # tokens a chunk
SENTENCES = 5
K1, B = 0.9, 0.4  # Anserini's defaults
RERANKED = 100  # hits of BM25, as in BEIR's table
CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L6-v2"  # the hub's names; BEIR's table has "-L-6-"
BGE_M3 = "BAAI/bge-m3"
JINA_3 = "jinaai/jina-embeddings-v3"
MEROLA_CHUNKS = 40  # that the notebook retrieves
MEROLA_TOKENS = 512  # a segment; the notebook's unit was not read

Cut = Callable[[Document, Encoder], list[Chunk]]


def whole_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 of title and abstract in one text, of which the published row reads the first 256 tokens."""
    scifact, encoder = datasets.load_scifact(), models.load_encoder()
    documents = whole_texts(scifact)
    vectors = kept_vectors(
        encoder,
        ["whole", 256, [d.text for d in documents]],
        lambda: encoder.encode([d.text for d in documents], max_tokens=min(256, encoder.window)),
    )
    scores = dense_ndcg(scifact, encoder, vectors, [d.id for d in documents], models)
    paper = published("minilm_scifact").values["nDCG@10"]
    return [Comparison("nDCG@10", paper, bootstrap_ci(scores))]


def bm25_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 with Lucene's formula and Anserini's settings, title and abstract in one field."""
    scifact = datasets.load_scifact()
    index = BM25Index(_flat(scifact), "bm25s", "porter", ENGLISH_STOP_WORDS, K1, B)
    scores = _ndcg(scifact, index.search, models)
    return [Comparison("nDCG@10", published("anserini_bm25_scifact").values["nDCG@10"], bootstrap_ci(scores))]


def cross_encoder_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 of the 100 best of BM25 in the reranker's order."""
    scifact = datasets.load_scifact()
    search = BM25Index(_flat(scifact), "bm25s", "porter", ENGLISH_STOP_WORDS, K1, B).search
    reranker = models.load_reranker(None)
    before = _ndcg(scifact, search, models)
    after = _ndcg(scifact, rerank(search, reranker, RERANKED), models)
    rows = {f"cross-encoder/{name.replace('-L-', '-L')}": r for name, r in published("ce_rerank_beir").values.items()}
    paper = rows.get(models.reranker, rows[CROSS_ENCODER])["SciFact"]
    return [
        Comparison("nDCG@10", paper, bootstrap_ci(after)),
        Comparison("reranked − BM25", None, paired_difference(after, before), is_gain=True),
    ]


def berlin(models: Models) -> list[Comparison]:
    """Similarity of "Berlin" with each of three sentences, and what late chunking adds to it: one document."""
    encoder = models.load_encoder()
    chunks = chunk_sentences(datasets.BERLIN, size=None)
    query = encoder.encode(["Berlin"], kind="query")[0]
    found = {
        "naive": encoder.encode([c.text for c in chunks]) @ query,
        "late": encoder.encode_late(datasets.BERLIN, chunks) @ query,
    }
    paper = published("late_berlin").values
    rows = [
        Comparison(f"{name}, sentence {i + 1}", paper[name][i], exactly(float(values[i])), shown=False)
        for name, values in found.items()
        for i in range(len(chunks))
    ]
    for i in range(len(chunks)):
        gain = paper["late"][i] - paper["naive"][i]
        measured = exactly(float(found["late"][i] - found["naive"][i]))
        rows.append(Comparison(f"late − naive, sentence {i + 1}", round(gain, 8), measured, is_gain=True))
    return rows


def late_fixed(models: Models) -> list[Comparison]:
    """Fixed chunks of 256 tokens: naive, late, and late minus naive (nDCG@10 in percent)."""
    paper = published("late_scifact_fixed256").values
    return _late_rows(models, {"256 tokens": _tokens(256)}, {"256 tokens": (paper["naive"], paper["late"])})


def late_sentences(models: Models) -> list[Comparison]:
    """Five sentences a chunk. Published is only the mean over three models and four data sets."""
    paper = published("late_averages").values["five sentences"]
    cut = {"five sentences": lambda document, encoder: five_sentences(document)}
    return _late_rows(models, cut, {"five sentences": (paper["naive"], paper["late"])})


def late_series(models: Models) -> list[Comparison]:
    """Late minus naive over chunk sizes; the published point is the one of 256 tokens."""
    paper = published("late_scifact_fixed256").values
    cuts = {f"{size} tokens": _tokens(size) for size in SERIES}
    rows = _late_rows(models, cuts, {"256 tokens": (paper["naive"], paper["late"])})
    return [replace(row, shown=row.is_gain) for row in rows]


def merola_nfcorpus(models: Models) -> list[Comparison]:
    """NFCorpus in fixed segments, naive and late, best of 40 chunks a document: nDCG@5 and nDCG@10."""
    nfcorpus, encoder = datasets.load_nfcorpus(), models.load_encoder()
    chunks, vectors = both_ways(whole_texts(nfcorpus), encoder, _tokens(MEROLA_TOKENS))
    paper = published("merola_nfcorpus").values["BGE-M3" if models.encoder == BGE_M3 else "Jina v3"]
    rows = []
    for place, k in enumerate((5, 10)):
        scores = {
            name: _ndcg(nfcorpus, _dense(chunks, v, encoder), models, k, MEROLA_CHUNKS) for name, v in vectors.items()
        }
        for name, values in scores.items():
            rows.append(Comparison(f"{name}, nDCG@{k}", paper[name][place], bootstrap_ci(values), shown=False))
        gain = round(paper["late"][place] - paper["naive"][place], 5)
        measured = paired_difference(scores["late"], scores["naive"])
        rows.append(Comparison(f"late − naive, nDCG@{k}", gain, measured, is_gain=True))
    return rows


def whole_texts(data: RetrievalSet) -> list[Document]:
    """Each document with its title before its text, as one text."""
    return [replace(d, text=f"{d.title} {d.text}".strip()) for d in data.documents]


def five_sentences(document: Document) -> list[Chunk]:
    """Chunks of five whole sentences; the last has what is left."""
    sentences, chunks = chunk_sentences(document, size=None), []
    for index, first in enumerate(range(0, len(sentences), SENTENCES)):
        start, end = sentences[first].start, sentences[first : first + SENTENCES][-1].end
        chunks.append(replace(sentences[first], index=index, end=end, text=document.text[start:end]))
    return chunks


def both_ways(documents: Sequence[Document], encoder: Encoder, cut: Cut) -> tuple[list[Chunk], dict[str, Vectors]]:
    """The chunks of all documents with their naive and late vectors (n, d)."""
    chunks = [chunk for document in documents for chunk in cut(document, encoder)]
    about = [[c.text for c in chunks], [(c.doc_id, c.start, c.end) for c in chunks]]
    return chunks, {
        "naive": kept_vectors(encoder, ["naive", *about], lambda: encoder.encode([c.text for c in chunks])),
        "late": kept_vectors(encoder, ["late", *about], lambda: encoder.encode_late_corpus(documents, chunks)),
    }


def dense_ndcg(
    data: RetrievalSet, encoder: Encoder, vectors: Vectors, doc_ids: Sequence[str], models: Models
) -> np.ndarray:
    """nDCG@10 of each query (n,); a document's score is its best chunk's, over all chunks."""
    ids = np.array(doc_ids)
    asked = models.few(list(data.queries))
    queries = encoder.encode([data.queries[id_] for id_ in asked], kind="query")
    scores = []
    for id_, query in zip(asked, queries, strict=True):
        order = np.argsort(-(vectors @ query), kind="stable")
        scores.append(ndcg_at_k(list(dict.fromkeys(ids[order].tolist())), data.relevance[id_], DEPTH))
    return np.array(scores)


def _late_rows(models: Models, cuts: dict[str, Cut], paper: dict[str, tuple[float, float]]) -> list[Comparison]:
    """SciFact, nDCG@10 in percent: for each way of cutting naive, late and their paired difference."""
    scifact, encoder = datasets.load_scifact(), models.load_encoder()
    documents, rows = whole_texts(scifact), []
    for name, cut in cuts.items():
        chunks, vectors = both_ways(documents, encoder, cut)
        doc_ids = [c.doc_id for c in chunks]
        scores = {way: dense_ndcg(scifact, encoder, found, doc_ids, models) for way, found in vectors.items()}
        published_pair = paper.get(name, (None, None))
        for (way, values), figure in zip(scores.items(), published_pair, strict=True):
            rows.append(Comparison(f"{way}, {name}", figure, in_percent(bootstrap_ci(values)), shown=False))
        naive, late = published_pair
        gain = None if naive is None or late is None else round(late - naive, 6)
        measured = in_percent(paired_difference(scores["late"], scores["naive"]))
        rows.append(Comparison(f"late − naive, {name}", gain, measured, is_gain=True))
    return rows


def _tokens(size: int) -> Cut:
    return lambda document, encoder: chunk_tokens(document, size, 0, encoder.tokenizer)


def _flat(data: RetrievalSet) -> list[Chunk]:
    """One chunk a document: title, space, text, as in Anserini's flat index."""
    return [Chunk(d.id, 0, f"{d.title} {d.text}", 0, len(d.title) + 1 + len(d.text)) for d in data.documents]


def _dense(chunks: Sequence[Chunk], vectors: Vectors, encoder: Encoder) -> Retriever:
    index = DenseIndex(chunks, vectors)
    return lambda question, k: index.search(encoder.encode([question], kind="query")[0], k)


def _ndcg(data: RetrievalSet, search: Retriever, models: Models, k: int = DEPTH, hits: int = DEPTH) -> np.ndarray:
    """nDCG@k of each query (n,), documents in the order of their best chunk among the first ``hits``."""
    asked: Iterable[str] = models.few(list(data.queries))
    return np.array(
        [ndcg_at_k(rank_documents(search(data.queries[id_], hits)), data.relevance[id_], k) for id_ in asked]
    )


KS = (5, 10, 20)
COOKBOOK_DEPTH = 150  # hits of each search that the cookbook fuses
COOKBOOK_RERANKED = 10  # times k: dense hits that the cookbook reranks
MEROLA_SHARE = 0.2  # of NFCorpus
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
    chunks = chunk_corpus(documents, chunk_tokens, size=MEROLA_TOKENS, overlap=0, tokenizer=encoder.tokenizer)
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
