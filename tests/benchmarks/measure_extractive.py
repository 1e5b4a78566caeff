"""The extractive reader, and a threshold on the retriever's score alone, with thresholds chosen on other questions.

python -m tests.benchmarks.measure_extractive      under a minute

The handbook corpus, paragraph chunks, MiniLM, the five nearest passages. A threshold is chosen (``choose_threshold``)
on the questions with odd numbers, from 1, and reported on those with even ones. ``gold`` is the share of the answered
answerable questions whose sentence overlaps a gold range. The retriever's threshold decides by the score of the best
passage whether to answer, and says nothing about what. ``curve`` rows are of the even half, at eleven thresholds.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_lab import datasets, results, settings, types
from rag_lab.answering.abstention import choose_threshold, threshold_curve
from rag_lab.answering.extractive import ExtractiveReader
from rag_lab.chunking import chunk_corpus, chunk_paragraphs
from rag_lab.metrics import bootstrap_ci
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.types import Retriever

COMMAND = "python -m tests.benchmarks.measure_extractive"
CORPUS, PASSAGES = "handbook", 5


def scores_at(values: Sequence[float], known: Sequence[bool], threshold: float) -> list[int]:
    """For each question: +1 answerable and answered, -1 unanswerable and answered, 0 refused."""
    return [(1 if k else -1) if value >= threshold else 0 for value, k in zip(values, known, strict=True)]


def measured(
    name: str, scores: Sequence[float], questions: Sequence[types.Question]
) -> tuple[float, list[dict[str, Any]]]:
    """The threshold chosen on the odd half, and the rows of the even half."""
    answerable = [question.answerable for question in questions]
    threshold = choose_threshold(scores[0::2], answerable[0::2])
    values, known = scores[1::2], answerable[1::2]
    refused = [float(score < threshold) for score, yes in zip(values, known, strict=True) if yes]
    answered = [float(score >= threshold) for score, yes in zip(values, known, strict=True) if not yes]
    measures = {
        "false refusals": refused,
        "false answers": answered,
        "score": scores_at(values, known, threshold),
        "score, never refusing": scores_at(values, known, -2.0),
    }
    rows: list[dict[str, Any]] = [
        {"method": name, "measure": measure, "threshold": round(threshold, 5)}
        | results.interval_fields(bootstrap_ci(numbers))
        for measure, numbers in measures.items()
    ]
    at = np.quantile(values, np.linspace(0, 1, 11)).round(5).tolist()
    rows += [
        {
            "method": name,
            "measure": "curve",
            "threshold": point.threshold,
            "false_refusals": round(point.false_refusal_rate, 5),
            "false_answers": round(point.false_answer_rate, 5),
        }
        for point in threshold_curve(values, known, at)
    ]
    return threshold, rows


def gold_row(
    name: str, reader: ExtractiveReader, retriever: Retriever, questions: Sequence[types.Question]
) -> dict[str, Any]:
    """How often an answer given to an answerable question overlaps a gold range."""
    held = []
    for question in questions:
        answer = reader.answer(question.text, retriever, PASSAGES)
        if question.answerable and answer.status == "answered":
            chunks = {source.id: source.chunk for source in answer.sources}
            places = [
                (chunks[q.source_id].doc_id, *(chunks[q.source_id].start + at for at in q.span))
                for q in answer.quotes
                if q.span
            ]
            held.append(
                float(
                    any(
                        g.doc_id == d and start < g.end and g.start < end
                        for d, start, end in places
                        for g in question.gold
                    )
                )
            )
    return {
        "method": name,
        "measure": "gold",
        "threshold": round(reader.threshold or 0.0, 5),
    } | results.interval_fields(bootstrap_ci(held))


def main() -> int:
    """Measure and record."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm", dtype="float32")
    corpus = datasets.load_corpus(CORPUS)
    chunks = chunk_corpus(corpus.documents, chunk_paragraphs)
    retriever = dense_retriever(DenseIndex(chunks, encoder.encode([c.contextual_text for c in chunks])), encoder)
    questions = corpus.questions
    hits = [retriever(question.text, PASSAGES) for question in questions]
    reader = ExtractiveReader(encoder)
    reader_scores = [reader.best_score(q.text, found) for q, found in zip(questions, hits, strict=True)]
    reader.threshold, rows = measured("extractive reader", reader_scores, questions)
    rows.append(gold_row("extractive reader", reader, retriever, questions[1::2]))
    rows += measured("retriever's gate", [found[0].score for found in hits], questions)[1]
    for row in rows:
        if "value" in row:
            print(
                row["method"], row["measure"], results.show_interval(row), f"n={row['n']}", row["threshold"], sep="  "
            )
    results.write_result(
        "extractive_reader",
        rows,
        model="all-MiniLM-L6-v2, float32",
        data=f"{CORPUS}: {len(questions)} questions, {sum(q.answerable for q in questions)} of them answerable; "
        "thresholds chosen on the odd half, all rows of the even half",
        sha256=results.digest(sorted(p for p in (settings.DATA / "corpora" / CORPUS).iterdir())),
        command=COMMAND,
        seconds=time.perf_counter() - began,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
