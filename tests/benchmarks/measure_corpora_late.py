"""The built-in corpora, one sentence per chunk: span recall of naive and late chunking, and the paired difference.

python -m tests.benchmarks.measure_corpora_late        under a minute; also records the Berlin example
"""

import hashlib
import sys
import time

from rag_lab import datasets, results, settings, types
from rag_lab.chunking import chunk_corpus, chunk_sentences
from rag_lab.metrics import bootstrap_ci, paired_difference
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval import evaluate
from rag_lab.retrieval.dense import DenseIndex

KS = (1, 3, 5, 10)
COMMAND = "python -m tests.benchmarks.measure_corpora_late"


def corpus_rows(encoder: Encoder, corpus: types.Corpus) -> list[dict]:
    """Rows of naive, late and their difference for each language and k."""
    chunks = chunk_corpus(corpus.documents, chunk_sentences, size=None)
    vectors = {
        "naive": encoder.encode([c.text for c in chunks]),
        "late": encoder.encode_late_corpus(corpus.documents, chunks),
    }
    rows = []
    for language in sorted({q.language for q in corpus.questions}):
        questions = [q for q in corpus.questions if q.answerable and q.language == language]
        queries = encoder.encode([q.text for q in questions], kind="query")
        recalls = {
            name: evaluate.dense_span_recalls(DenseIndex(chunks, v), queries, questions, KS)
            for name, v in vectors.items()
        }
        for k in KS:
            fixed = {"corpus": corpus.name, "language": language, "k": k}
            for name, recall in recalls.items():
                rows.append(fixed | {"name": name} | results.interval_fields(bootstrap_ci(recall[k])))
            gain = paired_difference(recalls["late"][k], recalls["naive"][k])
            rows.append(fixed | {"name": "late - naive"} | results.interval_fields(gain))
            print(*(results.show_interval(row) for row in rows[-3:]), corpus.name, language, f"k={k}", sep="  ")
    return rows


def berlin_rows(encoder: Encoder) -> list[dict]:
    """Similarity of "Berlin" with the three sentences, naive and late. One document: no interval."""
    chunks = chunk_sentences(datasets.BERLIN, size=None)
    query = encoder.encode(["Berlin"], kind="query")[0]
    naive = encoder.encode([c.text for c in chunks]) @ query
    late = encoder.encode_late(datasets.BERLIN, chunks) @ query
    return [
        {"name": name, "sentence": i + 1, "value": round(float(value), 5)}
        for name, similarities in (("naive", naive), ("late", late))
        for i, value in enumerate(similarities)
    ]


def main() -> int:
    """Measure and record."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm", dtype="float32")
    berlin = berlin_rows(encoder)
    corpora = [datasets.load_corpus(name) for name in ("cities", "insurance", "handbook")]
    rows = [row for corpus in corpora for row in corpus_rows(encoder, corpus)]
    seconds = time.perf_counter() - began
    provenance = {"model": "all-MiniLM-L6-v2, float32", "command": COMMAND, "seconds": seconds}
    files = sorted(p for p in (settings.DATA / "corpora").rglob("*.*") if p.is_file())
    results.write_result("corpora_late", rows, data="built-in corpora", sha256=results.digest(files), **provenance)
    text_digest = hashlib.sha256(datasets.BERLIN.text.encode()).hexdigest()
    results.write_result(
        "berlin", berlin, data="three sentences (arXiv 2409.04701, Table 1)", sha256=text_digest, **provenance
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
