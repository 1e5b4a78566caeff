"""How good the questions are that SmolLM2 generates about 30 chunks of the handbook, and the checks that filter them.

python -m tests.benchmarks.measure_generated_questions        about 5 minutes

The kept questions are compared with the hand-written ones by how often their passage is among the five found. The
threshold of the check for negatives was chosen on the corpora cities and insurance, whose questions all have an
answer: the highest, to a twentieth, that at most one in 20 of them misses. On the handbook it is reported.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_lab import datasets, results, settings, types
from rag_lab.answering.extractive import ANSWER_THRESHOLD, ExtractiveReader
from rag_lab.chunking import SECTION_CHARS, chunk_corpus, chunk_headings
from rag_lab.evaluation.questions import generate_questions, report_questions
from rag_lab.llm.local import LocalLLM
from rag_lab.metrics import Interval, span_recall, wilson_interval
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.fusion import fused_retriever
from rag_lab.types import Chunk, Retriever

COMMAND = "python -m tests.benchmarks.measure_generated_questions"
PASSAGES = 30
K = 5


def chunks_of(corpus: types.Corpus) -> list[Chunk]:
    """The corpus as ``generate_questions`` cuts it."""
    return chunk_corpus(corpus.documents, chunk_headings, size=SECTION_CHARS)


def retriever_over(chunks: Sequence[Chunk], encoder: Encoder) -> Retriever:
    """Dense and BM25, fused."""
    dense = DenseIndex(chunks, encoder.encode([chunk.contextual_text for chunk in chunks]))
    return fused_retriever([dense_retriever(dense, encoder), BM25Index(chunks).search])


def share(name: str, successes: Sequence[bool]) -> dict[str, Any]:
    """A row of the results: a share with Wilson's interval."""
    found = wilson_interval(sum(successes), len(successes)) if successes else Interval(0.0, 0.0, 1.0, 0)
    row = {"measure": name} | results.interval_fields(found)
    print(row)
    return row


def found_rows(retriever: Retriever, groups: dict[str, list[types.Question]]) -> list[dict[str, Any]]:
    """For each group of positives: how often the ``K`` passages found hold at least half of the gold."""
    return [
        share(
            f"gold among the {K} found, {name}",
            [span_recall([hit.chunk for hit in retriever(q.text, K)], q.gold) >= 0.5 for q in questions],
        )
        for name, questions in groups.items()
    ]


def check_rows(encoder: Encoder) -> list[dict[str, Any]]:
    """How often the best sentence of the ``K`` passages found reaches the threshold, by corpus and kind."""
    rows = []
    reader = ExtractiveReader(encoder)
    for name in ("cities", "insurance", "handbook"):
        corpus = datasets.load_corpus(name)
        retriever = retriever_over(chunks_of(corpus), encoder)
        for kind, answerable in (("with", True), ("without", False)):
            questions = [q for q in corpus.questions if q.answerable == answerable and q.language == "en"]
            if questions:
                over = [reader.best_score(q.text, retriever(q.text, K)) >= ANSWER_THRESHOLD for q in questions]
                rows.append(share(f"over {ANSWER_THRESHOLD}, {name}, {kind} an answer", over))
    return rows


def main() -> int:
    """Measure and record."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm", dtype="float32")
    corpus = datasets.load_corpus("handbook")
    chunks = chunks_of(corpus)
    retriever = retriever_over(chunks, encoder)
    llm = LocalLLM.load("smollm2")
    chosen = chunks[:: len(chunks) // PASSAGES][:PASSAGES]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "questions.jsonl"
        records = generate_questions(chosen, llm, out, retriever=retriever, k=K)
        kept = datasets.load_questions(out, corpus.documents)
    rows: list[dict[str, Any]] = []
    for kind, summary in report_questions(records).items():
        mine = [record for record in records if record["kind"] == kind]
        rows.append(share(f"{kind}s kept", [record["kept"] for record in mine]))
        rows += [{"measure": f"{kind}s refused: {why}", "value": n} for why, n in summary.refused.items()]
        if kind == "positive":
            tried = [r for r in mine if r["kept"] or r["why"] == "not answered with the passage given"]
            rows.append(
                share("positives answered with the passage given, of those asked", [r["kept"] for r in tried])
            )
        else:
            searched = [r for r in mine if r["kept"] or r["why"].startswith("answered")]
            elsewhere = [r["why"] == "answered elsewhere" for r in searched]
            rows.append(share("negatives answered elsewhere, of those searched", elsewhere))
    groups = {
        "generated and kept": [q for q in kept if q.answerable],
        "hand-written": [q for q in corpus.questions if q.answerable],
    }
    rows += found_rows(retriever, groups)
    rows += check_rows(encoder)
    for record in records:
        print(record["kind"], record["kept"], record["why"], record["text"], record["answers"], sep="  ")
    files = sorted((settings.DATA / "corpora" / "handbook").iterdir())
    results.write_result(
        "generated_questions",
        rows,
        model=f"SmolLM2-135M-Instruct, Q4_1 GGUF, {llm.dtype}; all-MiniLM-L6-v2, float32",
        data=f"handbook, {PASSAGES} of {len(chunks)} chunks by headings; questions of cities, insurance and handbook",
        sha256=results.digest(files),
        command=COMMAND,
        seconds=time.perf_counter() - began,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
