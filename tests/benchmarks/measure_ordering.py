"""What the order and the number of retrieved passages do to SmolLM2's answers: cities, insurance, NQ-Open.

python -m tests.benchmarks.measure_ordering                 data/results/ordering.json, about an hour

Answers are kept and resumed as in ``measure_positions``. NQ needs the nq-oracle data (RAG_LAB_DATA) and is left out
without them. Passages are ranked by BM25 fused with MiniLM on the corpora, by BM25 alone on NQ's 2,655 passages.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from rag_lab import datasets, results, settings
from rag_lab.chunking import chunk_corpus, chunk_paragraphs
from rag_lab.datasets import files_of
from rag_lab.llm.local import LocalLLM
from rag_lab.metrics import paired_difference
from rag_lab.models.encoder import Encoder
from rag_lab.positions.conditions import ConditionResults, Measure
from rag_lab.positions.ordering import MAX_TOKENS, Ranking, chunk_count_experiment, ordering_experiment, rank_passages
from rag_lab.prompting.build import build_prompt
from rag_lab.prompting.templates import assign_sources
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.fusion import reciprocal_rank_fusion
from rag_lab.storage import Store
from rag_lab.types import Chunk, Hit, Retriever

COMMAND = "python -m tests.benchmarks.measure_ordering"
MEASURES: tuple[Measure, ...] = ("accuracy", "log_likelihood", "refused")
ORDERED = 10  # passages to order
COUNTS = (1, 2, 5, 10, 20, 40)
SETS = {"cities": (40, 20), "insurance": (24, 20), "nq": (24, 20)}  # questions for the orders, and for the counts


def fused(chunks: list[Chunk]) -> Retriever:
    """BM25 and dense search, fused by rank."""
    encoder = Encoder.load()
    dense, bm25 = DenseIndex(chunks, encoder.encode([chunk.contextual_text for chunk in chunks])), BM25Index(chunks)

    def search(question: str, k: int) -> list[Hit]:
        query = encoder.encode([question])[0]
        return reciprocal_rank_fusion([dense.search(query, len(chunks)), bm25.search(question, len(chunks))])[:k]

    return search


def rankings_of(name: str, k: int) -> list[Ranking]:
    """Every English question whose ranking has ``k`` passages; the models do not read Persian."""
    corpus = datasets.load_nq_oracle() if name == "nq" else datasets.load_corpus(name)
    if name == "nq":
        chunks = [Chunk(d.id, 0, d.text, 0, len(d.text), d.title, d.uri) for d in corpus.documents]
        retriever: Retriever = BM25Index(chunks).search
        questions = corpus.questions[:200]  # of 2,655, because each needs a search
    else:
        retriever = fused(chunk_corpus(corpus.documents, chunk_paragraphs, size=400))
        questions = [question for question in corpus.questions if question.language == "en"]
    return [ranking for ranking in rank_passages(retriever, questions, k) if len(ranking.chunks) == k]


def rows_of(name: str, outcomes: ConditionResults, label: str, first: Any) -> list[dict[str, Any]]:
    """One row per measure and condition; all but the first have their difference from the first."""
    rows = outcomes.rows(label, MEASURES)
    for row in rows:
        if row[label] != first:
            row["difference"] = results.interval_fields(outcomes.difference(row[label], first, row["measure"]))
        row["task"] = f"{name}, {row['task']}"
        print("  ".join(f"{key}: {value}" for key, value in row.items()), flush=True)
    return rows


def fits(llm: LocalLLM, ranking: Ranking) -> bool:
    """Whether its passages and an answer fit into the window; 40 passages of NQ do not always."""
    prompt = build_prompt(ranking.question.text, assign_sources(ranking.chunks), query_aware=True)
    return llm.count_prompt_tokens(prompt) + MAX_TOKENS <= llm.window


def twice_less_once(name: str, once: ConditionResults, twice: ConditionResults) -> Iterator[dict[str, Any]]:
    """The question before and after the sources − only after, paired by question: one row per measure and order."""
    for measure in MEASURES:
        for i, order in enumerate(once.conditions):
            difference = paired_difference(twice.values(measure)[:, i], once.values(measure)[:, i])
            row = {"task": f"{name}, asked twice less once", "order": order, "measure": measure}
            yield row | results.interval_fields(difference)


def measure(llm: LocalLLM, store: Store, name: str) -> Iterator[list[dict[str, Any]]]:
    ordered, counted = SETS[name]
    rankings = [ranking for ranking in rankings_of(name, COUNTS[-1]) if fits(llm, ranking)]
    short = [Ranking(r.question, r.chunks[:ORDERED], r.gold if (r.gold or 0) < ORDERED else None) for r in rankings]
    found = sum(ranking.gold is not None for ranking in short)
    asked = []
    for query_aware in (False, True):
        outcomes = ordering_experiment(llm, short, n=min(ordered, found), query_aware=query_aware, store=store)
        rows = rows_of(name, outcomes, "order", "ranked")
        yield [row | {"passages": ORDERED, "gold_found": found, "questions": len(short)} for row in rows]
        asked.append(outcomes)
    yield list(twice_less_once(name, *asked))
    outcomes = chunk_count_experiment(llm, rankings, COUNTS, min(counted, len(rankings)), store=store)
    yield rows_of(name, outcomes, "k", COUNTS[0])


def main() -> int:
    """Measure, and record after each experiment."""
    llm = LocalLLM.load("smollm2")
    store = Store(settings.cache_folder() / "positions.jsonl")
    started = time.perf_counter()
    kept = f"; {len(store)} answers were kept by earlier runs, whose seconds are not counted"
    files = sorted(path for name in ("cities", "insurance") for path in (datasets.CORPORA / name).glob("*"))
    names = [*SETS]
    try:
        files += files_of("nq-oracle")
    except FileNotFoundError as error:
        print(f"NQ is left out: {error}")
        names.remove("nq")
    rows: list[dict[str, Any]] = []
    for name in names:
        for more in measure(llm, store, name):
            rows += more
            results.write_result(
                "ordering",
                rows,
                model=f"smollm2, {llm.dtype}; ranked by BM25 and minilm fused (nq: BM25)",
                data=", ".join(names) + ", English questions" + kept,
                sha256=results.digest(files),
                command=COMMAND,
                seconds=time.perf_counter() - started,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
