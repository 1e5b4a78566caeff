"""Published rows of retrieval: whole texts, BM25, cross-encoders, late against naive chunking, and added context."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rag_lab import datasets
from rag_lab.chunking import chunk_corpus, chunk_sentences, chunk_tokens
from rag_lab.metrics import bootstrap_ci, ndcg_at_k, paired_difference, recall_at_k
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.reproduce.models import Models, cached_vectors
from rag_lab.results import Comparison, exactly, published
from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, BM25Index
from rag_lab.retrieval.contextual import add_heading_context, generate_contexts
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.evaluate import rank_documents
from rag_lab.retrieval.fusion import fused_retriever, reciprocal_rank_fusion
from rag_lab.retrieval.rerankers import rerank
from rag_lab.types import Chunk, Document, Hit, RetrievalSet, Retriever

DEPTH = 10
SIZES = (16, 32, 64, 128, 256)  # tokens per chunk
SENTENCES = 5
K1, B = 0.9, 0.4  # Anserini's defaults
RERANKED = 100  # hits of BM25, as in BEIR's table
CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L6-v2"  # the hub's names; BEIR's table has "-L-6-"
BGE_M3 = "BAAI/bge-m3"
JINA_3 = "jinaai/jina-embeddings-v3"
KS = (5, 10, 20)
COOKBOOK_DEPTH = 150  # hits of each search that the cookbook fuses
COOKBOOK_RERANKED = 10  # times k: dense hits that the cookbook reranks
MEROLA_CHUNKS = 40  # chunks that their notebook retrieves
MEROLA_TOKENS = 512  # per segment; the unit in their notebook was not read
MEROLA_SHARE = 0.2  # of NFCorpus
NAMES = 12  # declared names that describe a file of code
# What a line of Rust, C, Python, Go or JavaScript declares, up to its brace or end.
DECLARED = re.compile(
    r"^[ \t]*(?:(?:pub(?:\([a-z]+\))?|export|static|async|default|abstract)[ \t]+)*"
    r"(?:fn|struct|enum|trait|impl|mod|def|class|interface|func|type|function|macro_rules!)\b[ \t]+([^\n{:;]+)",
    re.MULTILINE,
)

Cut = Callable[[Document, Encoder], list[Chunk]]


def whole_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 of title and abstract as one text. The published row reads only the first 256 tokens of it."""
    scifact, encoder = datasets.load_scifact(), models.load_encoder()
    documents = whole_texts(scifact)
    texts = [d.text for d in documents]
    limit = min(256, encoder.window)
    vectors = cached_vectors(encoder, ["whole", 256, texts], lambda: encoder.encode(texts, max_tokens=limit))
    scores = _best_chunk_ndcg(scifact, encoder, vectors, [d.id for d in documents], models)
    return [Comparison("nDCG@10", published("minilm_scifact").values["nDCG@10"], bootstrap_ci(scores))]


def bm25_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 with Lucene's formula and Anserini's settings, title and abstract in one field."""
    scifact = datasets.load_scifact()
    scores = _ndcg(scifact, _anserini(scifact), models)
    return [Comparison("nDCG@10", published("anserini_bm25_scifact").values["nDCG@10"], bootstrap_ci(scores))]


def cross_encoder_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 of BM25's 100 best in the reranker's order."""
    scifact = datasets.load_scifact()
    search = _anserini(scifact)
    before = _ndcg(scifact, search, models)
    after = _ndcg(scifact, rerank(search, models.load_reranker(), RERANKED), models)
    rows = {f"cross-encoder/{name.replace('-L-', '-L')}": r for name, r in published("ce_rerank_beir").values.items()}
    paper = rows.get(models.reranker, rows[CROSS_ENCODER])["SciFact"]
    return [
        Comparison("nDCG@10", paper, bootstrap_ci(after)),
        Comparison("reranked − BM25", None, paired_difference(after, before), is_gain=True),
    ]


def berlin(models: Models) -> list[Comparison]:
    """Similarity of "Berlin" with each of three sentences, naive and late, and what late chunking adds."""
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
        gain = round(paper["late"][i] - paper["naive"][i], 8)
        measured = exactly(float(found["late"][i] - found["naive"][i]))
        rows.append(Comparison(f"late − naive, sentence {i + 1}", gain, measured, is_gain=True))
    return rows


def late_fixed(models: Models) -> list[Comparison]:
    """SciFact in chunks of 256 tokens, naive and late."""
    paper = published("late_scifact_fixed256").values
    return _late_scifact(models, "256 tokens", _tokens(256), (paper["naive"], paper["late"]))


def late_sentences(models: Models) -> list[Comparison]:
    """SciFact, five sentences per chunk. Only the mean over three models and four data sets is published."""
    paper = published("late_averages").values["five sentences"]
    figures = (paper["naive"], paper["late"])
    return _late_scifact(models, "five sentences", lambda document, encoder: five_sentences(document), figures)


def late_series(models: Models) -> list[Comparison]:
    """SciFact by chunk size; only 256 tokens are published."""
    paper = published("late_scifact_fixed256").values
    rows = []
    for size in SIZES:
        figures = (paper["naive"], paper["late"]) if size == 256 else (None, None)
        rows += _late_scifact(models, f"{size} tokens", _tokens(size), figures)
    return rows


def merola_nfcorpus(models: Models) -> list[Comparison]:
    """NFCorpus in fixed segments, naive and late: nDCG of the documents of the 40 best chunks."""
    nfcorpus, encoder = datasets.load_nfcorpus(), models.load_encoder()
    chunks, vectors = naive_and_late(whole_texts(nfcorpus), encoder, _tokens(MEROLA_TOKENS))
    searches = {name: _dense(encoder, chunks, v, nfcorpus) for name, v in vectors.items()}
    paper = published("merola_nfcorpus").values["BGE-M3" if models.encoder == BGE_M3 else "Jina v3"]
    rows = []
    for place, k in enumerate((5, 10)):
        scores = {name: _ndcg(nfcorpus, search, models, k, MEROLA_CHUNKS) for name, search in searches.items()}
        rows += _compare(f"nDCG@{k}", scores, (paper["naive"][place], paper["late"][place]))
    return rows


def cookbook(models: Models) -> list[Comparison]:
    """Recall of the golden chunks at 5, 10 and 20 (the cookbook's Pass@k) in percent, for each configuration.

    BM25 is fused as in the cookbook, 0.8 / rank + 0.2 / rank without a constant, and also by standard RRF. The
    published gains are over dense search.
    """
    code = datasets.load_codebases()
    encoder = models.load_encoder()
    contextual_chunks = _add_context(code.documents, code.chunks, models, declared_names)
    plain_dense, _ = _searches(encoder, code.chunks, code)
    dense, terms = _searches(encoder, contextual_chunks, code)
    stages: dict[str, Retriever] = {
        "dense": plain_dense,
        "contextual dense": dense,
        "+ contextual BM25": cookbook_fusion(dense, terms),
        "+ contextual BM25, by RRF": fused_retriever([dense, terms], depth=COOKBOOK_DEPTH),
        "contextual dense + reranker": rerank(dense, models.load_reranker(encoder), COOKBOOK_RERANKED * KS[-1]),
    }
    paper = published("cookbook_codebases").values
    rows: list[Comparison] = []
    recalls: dict[str, dict[int, np.ndarray]] = {}
    for name, search in stages.items():
        recalls[name] = _recalls(search, code, models)
        figures = paper.get(name, [None] * len(KS))
        for k, figure in zip(KS, figures, strict=True):
            measured = bootstrap_ci(recalls[name][k]).scaled(100)
            rows.append(Comparison(f"{name}, recall@{k}", figure, measured, shown=False))
        if name != "dense":
            gain = None if figures[-1] is None else round(figures[-1] - paper["dense"][-1], 6)
            measured = paired_difference(recalls[name][KS[-1]], recalls["dense"][KS[-1]]).scaled(100)
            rows.append(Comparison(f"{name} − dense, recall@20", gain, measured, is_gain=True))
    return rows


def cookbook_fusion(dense: Retriever, terms: Retriever) -> Retriever:
    """The cookbook's own fusion: 0.8 / rank + 0.2 / rank over the 150 best of each, with no constant."""

    def retrieve(question: str, k: int) -> list[Hit]:
        rankings = [search(question, max(k, COOKBOOK_DEPTH)) for search in (dense, terms)]
        return reciprocal_rank_fusion(rankings, k=0, weights=[0.8, 0.2])[:k]

    return retrieve


def merola_contextual(models: Models) -> list[Comparison]:
    """A fifth of NFCorpus, without and with context: dense, and fused with reranking.

    Which documents the paper drew is unknown; here they are drawn with a fixed seed.
    """
    fifth = a_fifth(datasets.load_nfcorpus())
    encoder = models.load_encoder()
    reranker = models.load_reranker(encoder)
    documents = whole_texts(fifth)
    chunks = chunk_corpus(documents, chunk_tokens, size=MEROLA_TOKENS, overlap=0, tokenizer=encoder.tokenizer)
    contextual_chunks = _add_context(documents, chunks, models, add_heading_context)
    searches: dict[str, dict[str, Retriever]] = {"dense": {}, "fusion and reranker": {}}
    for name, pieces in (("without context", chunks), ("with context", contextual_chunks)):
        dense, terms = _searches(encoder, pieces, fifth)
        searches["dense"][name] = dense
        searches["fusion and reranker"][name] = rerank(fused_retriever([dense, terms]), reranker)
    paper = published("merola_contextual_nfcorpus").values
    rows = []
    for way, both in searches.items():
        for place, k in enumerate((5, 10)):
            scores = {name: _ndcg(fifth, search, models, k, 4 * k) for name, search in both.items()}
            figures = paper["without context"][way][place], paper["with context"][way][place]
            rows += _compare(f"{way}, nDCG@{k}", scores, figures)
    return rows


def whole_texts(data: RetrievalSet) -> list[Document]:
    """Each document with its title before its text, as one text."""
    return [replace(d, text=f"{d.title} {d.text}".strip()) for d in data.documents]


def five_sentences(document: Document) -> list[Chunk]:
    """Chunks of five whole sentences; the last has the rest."""
    sentences, chunks = chunk_sentences(document, size=None), []
    for index, first in enumerate(range(0, len(sentences), SENTENCES)):
        start, end = sentences[first].start, sentences[first : first + SENTENCES][-1].end
        chunks.append(replace(sentences[first], index=index, end=end, text=document.text[start:end]))
    return chunks


def naive_and_late(
    documents: Sequence[Document], encoder: Encoder, cut: Cut
) -> tuple[list[Chunk], dict[str, Vectors]]:
    """The chunks of all documents with their ``naive`` and ``late`` vectors (n, d)."""
    chunks = [chunk for document in documents for chunk in cut(document, encoder)]
    texts = [c.text for c in chunks]
    inputs = [texts, [(c.doc_id, c.start, c.end) for c in chunks]]
    return chunks, {
        "naive": cached_vectors(encoder, ["naive", *inputs], lambda: encoder.encode(texts)),
        "late": cached_vectors(encoder, ["late", *inputs], lambda: encoder.encode_late_corpus(documents, chunks)),
    }


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
    """Chunks with the first twelve names that their file declares as context, for code what headings are for prose.

    The cookbook's data has no file names.
    """
    names = list(dict.fromkeys(match[1].strip() for match in DECLARED.finditer(document.text)))[:NAMES]
    return [replace(chunk, context=f"Defines {', '.join(names)}" if names else "") for chunk in chunks]


def _late_scifact(
    models: Models, name: str, cut: Cut, figures: tuple[float | None, float | None]
) -> list[Comparison]:
    """nDCG@10 in percent of naive and late chunks, and their paired difference."""
    scifact, encoder = datasets.load_scifact(), models.load_encoder()
    chunks, vectors = naive_and_late(whole_texts(scifact), encoder, cut)
    doc_ids = [c.doc_id for c in chunks]
    scores = {way: _best_chunk_ndcg(scifact, encoder, found, doc_ids, models) for way, found in vectors.items()}
    return _compare(name, scores, figures, scale=100)


def _compare(
    label: str, scores: Mapping[str, np.ndarray], figures: tuple[float | None, float | None], scale: float = 1
) -> list[Comparison]:
    """Two methods, each with its published figure, then the second − the first, paired by question."""
    (first, a), (second, b) = scores.items()
    before, after = figures
    rows = [
        Comparison(f"{name}, {label}", figure, bootstrap_ci(values).scaled(scale), shown=False)
        for (name, values), figure in zip(scores.items(), figures, strict=True)
    ]
    gain = None if before is None or after is None else round(after - before, 6)
    measured = paired_difference(b, a).scaled(scale)
    return [*rows, Comparison(f"{second} − {first}, {label}", gain, measured, is_gain=True)]


def _tokens(size: int) -> Cut:
    return lambda document, encoder: chunk_tokens(document, size, 0, encoder.tokenizer)


def _anserini(data: RetrievalSet) -> Retriever:
    """BM25 as in Anserini's flat index: title, space and text of each document in one field."""
    texts = [(d.id, f"{d.title} {d.text}") for d in data.documents]
    chunks = [Chunk(id_, 0, text, 0, len(text)) for id_, text in texts]
    return BM25Index(chunks, "porter", ENGLISH_STOP_WORDS, K1, B).search


def _add_context(
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    models: Models,
    without_model: Callable[[Document, Sequence[Chunk]], list[Chunk]],
) -> list[Chunk]:
    """The chunks, in the same order, with context by ``models.llm`` or, if there is none, by ``without_model``."""
    if models.llm:
        contextual = [chunk for chunk, _ in generate_contexts(documents, chunks, models.load_llm())]
    else:
        contextual = [
            chunk
            for document in documents
            for chunk in without_model(document, [c for c in chunks if c.doc_id == document.id])
        ]
    by_id = {chunk.id: chunk for chunk in contextual}
    return [by_id[chunk.id] for chunk in chunks]


def _searches(encoder: Encoder, chunks: Sequence[Chunk], data: RetrievalSet) -> tuple[Retriever, Retriever]:
    """Dense search and BM25 over the chunks, context included."""
    texts = [chunk.contextual_text for chunk in chunks]
    vectors = cached_vectors(encoder, ["naive", texts], lambda: encoder.encode(texts))
    return _dense(encoder, chunks, vectors, data), BM25Index(chunks).search


def _dense(encoder: Encoder, chunks: Sequence[Chunk], vectors: Vectors, data: RetrievalSet) -> Retriever:
    """Dense search for the questions of ``data``, which are embedded in one batch."""
    index = DenseIndex(chunks, vectors)
    questions = list(dict.fromkeys(data.queries.values()))
    queries = dict(zip(questions, encoder.encode(questions, kind="query"), strict=True))
    return lambda question, k: index.search(queries[question], k)


def _best_chunk_ndcg(
    data: RetrievalSet, encoder: Encoder, vectors: Vectors, doc_ids: Sequence[str], models: Models
) -> np.ndarray:
    """nDCG@10 per query (n,). A document's score is its best chunk's; vectors[i] is a chunk of doc_ids[i]."""
    ids = np.array(doc_ids)
    sample = models.subsample(list(data.queries))
    queries = encoder.encode([data.queries[id_] for id_ in sample], kind="query")
    scores = []
    for id_, query in zip(sample, queries, strict=True):
        order = np.argsort(-(vectors @ query), kind="stable")
        scores.append(ndcg_at_k(list(dict.fromkeys(ids[order].tolist())), data.relevance[id_], DEPTH))
    return np.array(scores)


def _ndcg(data: RetrievalSet, search: Retriever, models: Models, k: int = DEPTH, hits: int = DEPTH) -> np.ndarray:
    """nDCG@k per query (n,), documents ranked by their best chunk among the first ``hits``."""
    sample = models.subsample(list(data.queries))
    rankings = [rank_documents(search(data.queries[id_], hits)) for id_ in sample]
    return np.array([ndcg_at_k(r, data.relevance[id_], k) for id_, r in zip(sample, rankings, strict=True)])


def _recalls(search: Retriever, data: RetrievalSet, models: Models) -> dict[int, np.ndarray]:
    """For each of ``KS``, the share of each question's golden chunks among the first k, (n,)."""
    sample = models.subsample(list(data.queries))
    rankings = {id_: [hit.chunk.id for hit in search(data.queries[id_], KS[-1])] for id_ in sample}
    return {k: np.array([recall_at_k(rankings[id_], data.relevance[id_], k) for id_ in sample]) for k in KS}
