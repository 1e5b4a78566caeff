"""SciFact with BM25: the published Lucene row by BM25Index and by bm25s, and rank-bm25's own number.

python -m tests.benchmarks.measure_scifact_bm25          needs SciFact (python -m rag_lab fetch scifact), about 10 s
"""

import functools
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import bm25s
import numpy as np
import rank_bm25

from rag_lab import datasets, results, types
from rag_lab.metrics import bootstrap_ci, ndcg_at_k
from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, BM25Index, analyze
from rag_lab.types import Chunk

DEPTH = 10
K1, B = 0.9, 0.4  # Anserini's defaults


def abstracts(scifact: types.RetrievalSet) -> list[Chunk]:
    """One chunk a document: title, space, abstract, as in Anserini's flat index."""
    return [Chunk(d.id, 0, f"{d.title} {d.text}", 0, len(d.title) + 1 + len(d.text)) for d in scifact.documents]


def lucene_row(scifact: types.RetrievalSet) -> np.ndarray:
    """nDCG@10 of each query (300,): Lucene's variant, Porter stems and stop words of Lucene's EnglishAnalyzer."""
    index = BM25Index(abstracts(scifact), "porter", ENGLISH_STOP_WORDS, K1, B)
    return ndcg_per_query(scifact, lambda text: [hit.chunk.doc_id for hit in index.search(text, DEPTH)])


def bm25s_row(scifact: types.RetrievalSet) -> np.ndarray:
    """nDCG@10 of each query (300,): bm25s with Lucene's variant, over the terms of ``BM25Index``."""
    chunks = abstracts(scifact)
    terms = functools.partial(analyze, stem="porter", stop_words=ENGLISH_STOP_WORDS)
    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index([terms(chunk.text) for chunk in chunks], show_progress=False)

    def rank(text: str) -> list[str]:
        order = np.argsort(-index.get_scores(terms(text, query=True)), kind="stable")
        return [chunks[i].doc_id for i in order[:DEPTH]]

    return ndcg_per_query(scifact, rank)


def rank_bm25_row(scifact: types.RetrievalSet) -> np.ndarray:
    """nDCG@10 of each query (300,): rank-bm25 as its own page shows it, BM25Okapi over lower case split at spaces."""
    chunks = abstracts(scifact)
    okapi = rank_bm25.BM25Okapi([chunk.text.lower().split() for chunk in chunks])

    def rank(text: str) -> list[str]:
        order = np.argsort(-okapi.get_scores(text.lower().split()), kind="stable")
        return [chunks[i].doc_id for i in order[:DEPTH]]

    return ndcg_per_query(scifact, rank)


def ndcg_per_query(scifact: types.RetrievalSet, rank: Callable[[str], list[str]]) -> np.ndarray:
    """nDCG@10 of each query (300,) of a function from a question to document ids."""
    return np.array([ndcg_at_k(rank(text), scifact.relevance[id_], DEPTH) for id_, text in scifact.queries.items()])


def main() -> int:
    """Measure the three rows, print them beside Anserini's, and record them."""
    began = time.perf_counter()
    scifact = datasets.load_scifact()
    scores = {
        "bm25s, Lucene settings, the same terms": bm25s_row(scifact),
        "BM25Index, rank_bm25, Lucene settings": lucene_row(scifact),
        "rank-bm25 alone, BM25Okapi, split at spaces": rank_bm25_row(scifact),
    }
    rows = [{"name": name} | results.interval_fields(bootstrap_ci(values)) for name, values in scores.items()]
    for row in rows:
        print(f"{row['name']}: nDCG@10 {results.show_interval(row, 4)}")
    print(f"Anserini, flat: {results.published('anserini_bm25_scifact').values['nDCG@10']}")
    packages = ", ".join(f"{package} {version(package)}" for package in ("bm25s", "rank-bm25", "PyStemmer"))
    path = results.write_result(
        "scifact_bm25",
        rows,
        model=f"BM25, k1 {K1}, b {B}, Porter stems, 33 stop words ({packages}); rank-bm25 alone: its defaults",
        data="SciFact (BEIR layout), test: 5,183 titles with abstracts, 300 claims; nDCG@10",
        sha256=results.digest(datasets.files_of("scifact")),
        command="python -m tests.benchmarks.measure_scifact_bm25",
        seconds=time.perf_counter() - began,
    )
    print(f"written: {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
