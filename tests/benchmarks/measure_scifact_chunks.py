"""SciFact with MiniLM: the published whole-abstract row, then chunks of 16 to 128 tokens, naive against late.

python -m tests.benchmarks.measure_scifact_chunks        needs SciFact (python -m rag_lab fetch scifact), about 40 min
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rag_lab import datasets, results, types
from rag_lab.chunking import chunk_corpus, chunk_tokens
from rag_lab.metrics import bootstrap_ci, ndcg_at_k, paired_difference
from rag_lab.models.encoder import Encoder, Vectors

DEPTH = 10
SIZES = (16, 32, 64, 128)
MODULE = "tests.benchmarks.measure_scifact_chunks"


def ndcg_per_query(
    scifact: types.RetrievalSet, queries: Vectors, vectors: Vectors, doc_ids: Sequence[str]
) -> np.ndarray:
    """nDCG@10 of each query (n,); a document's score is its best chunk's."""
    scores = []
    ids = np.array(doc_ids)
    for query_id, query in zip(scifact.queries, queries, strict=True):
        order = np.argsort(-(vectors @ query), kind="stable")
        ranking = list(dict.fromkeys(ids[order[: DEPTH * 200]]))
        scores.append(ndcg_at_k(ranking, scifact.relevance[query_id], DEPTH))
    return np.array(scores)


def whole_abstracts(scifact: types.RetrievalSet) -> None:
    """nDCG@10 of title and abstract in one text, float32: the published row."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm", dtype="float32")
    queries = encoder.encode(list(scifact.queries.values()), kind="query")
    # sentence-transformers reads 256 tokens of this model, and so did the published row.
    vectors = encoder.encode([f"{d.title} {d.text}" for d in scifact.documents], max_tokens=256)
    scores = ndcg_per_query(scifact, queries, vectors, [d.id for d in scifact.documents])
    rows = [{"name": "whole abstracts, first 256 tokens"} | results.interval_fields(bootstrap_ci(scores))]
    print(rows, flush=True)
    record("scifact_whole", rows, "all-MiniLM-L6-v2, float32", began)


def chunk_series(scifact: types.RetrievalSet) -> None:
    """Naive and late at each chunk size, and the paired difference late minus naive."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm")
    queries = encoder.encode(list(scifact.queries.values()), kind="query")
    documents = [replace(d, text=f"{d.title} {d.text}") for d in scifact.documents]
    rows = []
    for size in SIZES:
        chunks = chunk_corpus(documents, chunk_tokens, size=size, overlap=0, tokenizer=encoder.tokenizer)
        doc_ids = [c.doc_id for c in chunks]
        scores = {}
        for method in ("naive", "late"):
            start = time.perf_counter()
            if method == "naive":
                vectors = encoder.encode([c.text for c in chunks])
            else:
                vectors = encoder.encode_late_corpus(documents, chunks)
            seconds = round(time.perf_counter() - start, 1)
            scores[method] = ndcg_per_query(scifact, queries, vectors, doc_ids)
            rows.append(
                {"name": method, "size": size, "chunks": len(chunks), "seconds": seconds}
                | results.interval_fields(bootstrap_ci(scores[method]))
            )
            print(rows[-1], flush=True)
        gain = paired_difference(scores["late"], scores["naive"])
        rows.append({"name": "late - naive", "size": size} | results.interval_fields(gain))
        print(rows[-1], flush=True)
    dtype = str(encoder.model.dtype).removeprefix("torch.")
    record("scifact_chunks", rows, f"all-MiniLM-L6-v2, {dtype}", began)


def record(id_: str, rows: list[dict], model: str, began: float) -> None:
    """Write the rows with their provenance."""
    results.write_result(
        id_,
        rows,
        model=model,
        data="SciFact (BEIR layout), test: 5,183 abstracts, 300 claims; nDCG@10",
        sha256=results.digest(datasets.files_of("scifact")),
        command=f"python -m {MODULE}",
        seconds=time.perf_counter() - began,
    )


def main() -> int:
    """Measure both."""
    scifact = datasets.load_scifact()
    whole_abstracts(scifact)
    chunk_series(scifact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
