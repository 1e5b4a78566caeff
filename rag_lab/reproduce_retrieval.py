"""Published rows of search without a language model: whole texts, BM25, late against naive, cross-encoders."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from rag_lab import datasets
from rag_lab.chunking import chunk_sentences, chunk_tokens
from rag_lab.datasets import RetrievalSet
from rag_lab.documents import Chunk, Document
from rag_lab.encoder import Encoder, Vectors
from rag_lab.evaluation import rank_documents
from rag_lab.metrics import bootstrap_ci, ndcg_at_k, paired_difference
from rag_lab.papers import Comparison, exactly, in_percent, published
from rag_lab.reproduce_models import Models, kept_vectors
from rag_lab.reranking import rerank
from rag_lab.search import BM25Index, DenseIndex, Retriever
from rag_lab.tokens import ENGLISH_STOP_WORDS

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
