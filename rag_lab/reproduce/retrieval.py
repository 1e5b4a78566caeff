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


def whole_scifact(models: Models) -> list[Comparison]:
    """nDCG@10 of title and abstract as one text. The published row reads only the first 256 tokens of it."""
    scifact, encoder = datasets.load_scifact(), models.load_encoder()
    chunks = whole_chunks(scifact)
    texts = [chunk.text for chunk in chunks]
    limit = min(256, encoder.window)
    vectors = cached_vectors(encoder, ["whole", 256, texts], lambda: encoder.encode(texts, max_tokens=limit))
    scores = _best_chunk_ndcg(scifact, encoder, chunks, vectors, models)
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


def late_tokens(models: Models, sizes: Sequence[int]) -> list[Comparison]:
    """SciFact in chunks of each of ``sizes`` in tokens, naive and late, in percent; only 256 tokens are published."""
    paper = published("late_scifact_fixed256").values
    documents, encoder = whole_texts(datasets.load_scifact()), models.load_encoder()
    rows = []
    for size in sizes:
        chunks = chunk_corpus(documents, chunk_tokens, size=size, overlap=0, tokenizer=encoder.tokenizer)
        rows += _late_scifact(f"{size} tokens", encoder, chunks, paper if size == 256 else {}, models)
    return rows


def late_sentences(models: Models) -> list[Comparison]:
    """SciFact, five sentences per chunk. Only the mean over three models and four data sets is published."""
    chunks = chunk_corpus(whole_texts(datasets.load_scifact()), five_sentences)
    paper = published("late_averages").values["five sentences"]
    return _late_scifact("five sentences", models.load_encoder(), chunks, paper, models)


def merola_nfcorpus(models: Models) -> list[Comparison]:
    """NFCorpus in fixed segments, naive and late: nDCG of the documents of the 40 best chunks."""
    nfcorpus, encoder = datasets.load_nfcorpus(), models.load_encoder()
    documents = whole_texts(nfcorpus)
    chunks = chunk_corpus(documents, chunk_tokens, size=MEROLA_TOKENS, overlap=0, tokenizer=encoder.tokenizer)
    vectors = naive_and_late(documents, encoder, chunks)
    searches = {way: _dense(encoder, chunks, found, nfcorpus) for way, found in vectors.items()}
    paper = published("merola_nfcorpus").values["BGE-M3" if models.encoder == BGE_M3 else "Jina v3"]
    rows = []
    for place, k in enumerate((5, 10)):
        scores = {way: _ndcg(nfcorpus, search, models, k, MEROLA_CHUNKS) for way, search in searches.items()}
        rows += _compare(f"nDCG@{k}", scores, {way: paper[way][place] for way in scores})
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
    sample = models.subsample(list(code.queries))
    rows: list[Comparison] = []
    for name, search in stages.items():
        rankings = {id_: [hit.chunk.id for hit in search(code.queries[id_], KS[-1])] for id_ in sample}
        for k, figure in zip(KS, paper.get(name, [None] * len(KS)), strict=True):
            recalls = np.array([100 * recall_at_k(rankings[id_], code.relevance[id_], k) for id_ in sample])
            rows.append(Comparison(f"{name}, recall@{k}", figure, bootstrap_ci(recalls), shown=False))
        if name == "dense":
            dense_recalls = recalls
        else:
            gain = round(figure - paper["dense"][-1], 6) if figure else None
            measured = paired_difference(recalls, dense_recalls)
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
            rows += _compare(f"{way}, nDCG@{k}", scores, {name: paper[name][way][place] for name in both})
    return rows


def whole_texts(data: RetrievalSet) -> list[Document]:
    """Each document with its title before its text, as one text."""
    return [replace(d, text=f"{d.title} {d.text}".strip()) for d in data.documents]


def whole_chunks(data: RetrievalSet) -> list[Chunk]:
    """``whole_texts``, each as one chunk."""
    return [Chunk(d.id, 0, d.text, 0, len(d.text)) for d in whole_texts(data)]


def five_sentences(document: Document) -> list[Chunk]:
    """Chunks of five whole sentences; the last has the rest."""
    sentences = chunk_sentences(document, size=None)
    groups = [sentences[i : i + 5] for i in range(0, len(sentences), 5)]
    return [
        replace(group[0], index=i, end=group[-1].end, text=document.text[group[0].start : group[-1].end])
        for i, group in enumerate(groups)
    ]


def naive_and_late(documents: Sequence[Document], encoder: Encoder, chunks: Sequence[Chunk]) -> dict[str, Vectors]:
    """The ``naive`` and the ``late`` vectors of the chunks, (n, d) each."""
    texts = [c.text for c in chunks]
    inputs = [texts, [(c.doc_id, c.start, c.end) for c in chunks]]
    return {
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
    name: str, encoder: Encoder, chunks: Sequence[Chunk], paper: Mapping[str, float], models: Models
) -> list[Comparison]:
    """nDCG@10 in percent of naive and late vectors of SciFact's chunks, and their paired difference."""
    scifact = datasets.load_scifact()
    vectors = naive_and_late(whole_texts(scifact), encoder, chunks)
    scores = {way: 100 * _best_chunk_ndcg(scifact, encoder, chunks, found, models) for way, found in vectors.items()}
    return _compare(name, scores, paper)


def _compare(label: str, scores: Mapping[str, np.ndarray], paper: Mapping[str, float]) -> list[Comparison]:
    """Two methods, each beside its figure in ``paper``, then the second − the first, paired by question."""
    rows = [
        Comparison(f"{name}, {label}", paper.get(name), bootstrap_ci(values), shown=False)
        for name, values in scores.items()
    ]
    first, second = scores
    gain = round(paper[second] - paper[first], 6) if paper else None
    measured = paired_difference(scores[second], scores[first])
    return [*rows, Comparison(f"{second} − {first}, {label}", gain, measured, is_gain=True)]


def _anserini(data: RetrievalSet) -> Retriever:
    """BM25 as in Anserini's flat index: title, space and text of each document in one field."""
    return BM25Index(whole_chunks(data), "porter", ENGLISH_STOP_WORDS, K1, B).search


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
        contextual = [c for d in documents for c in without_model(d, [o for o in chunks if o.doc_id == d.id])]
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
    data: RetrievalSet, encoder: Encoder, chunks: Sequence[Chunk], vectors: Vectors, models: Models
) -> np.ndarray:
    """nDCG@10 per query (n,). A document's score is that of its best chunk, by ``vectors`` (chunks, d)."""
    ids = np.array([chunk.doc_id for chunk in chunks])
    sample = models.subsample(list(data.queries))
    queries = encoder.encode([data.queries[id_] for id_ in sample], kind="query")
    orders = [np.argsort(-(vectors @ query), kind="stable") for query in queries]
    return np.array(
        [ndcg_at_k(ids[o].tolist(), data.relevance[id_], DEPTH) for id_, o in zip(sample, orders, strict=True)]
    )


def _ndcg(data: RetrievalSet, search: Retriever, models: Models, k: int = DEPTH, hits: int = DEPTH) -> np.ndarray:
    """nDCG@k per query (n,), documents ranked by their best chunk among the first ``hits``."""
    sample = models.subsample(list(data.queries))
    rankings = [rank_documents(search(data.queries[id_], hits)) for id_ in sample]
    return np.array([ndcg_at_k(r, data.relevance[id_], k) for id_, r in zip(sample, rankings, strict=True)])
