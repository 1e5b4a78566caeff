"""An ablation: dense, late, contextual dense, + contextual BM25, + reranker, on the built-in corpora and on code.

python -m tests.benchmarks.measure_ladder [corpora] [codebases]        both by default; codebases needs its data

"table" says what a row is. failure: 1 - recall at k; recall is span recall (corpora) or the share of golden chunks
(codebases). gain: recall of a stage minus that of the stage "below" it, paired by question. cost: CPU milliseconds
per query (median, all threads; wall time on a shared machine says little) and context tokens that the encoder reads
per thousand chunks. contexts: what writing them takes per thousand chunks. budget: span recall of the top chunks that
fit in a number of SmolLM2 tokens, by kind of lost reference, and its gain over naive chunks; what counts is what goes
into the prompt, and the first chunk that does not fit ends it.
"""

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rag_lab import datasets, results
from rag_lab.chunking import chunk_headings, chunk_sentences
from rag_lab.llm.local import LocalLLM
from rag_lab.metrics import bootstrap_ci, paired_difference, recall_at_k, span_recall
from rag_lab.models.encoder import Encoder
from rag_lab.reproduce.retrieval import cookbook_fusion, declared_names
from rag_lab.retrieval import contextual, evaluate
from rag_lab.types import Chunk, Corpus, Hit, Question, Retriever
from tests.benchmarks.ladder_stages import (
    KS,
    SAMPLE,
    Indexes,
    Recalls,
    Row,
    Stage,
    Variants,
    context_rows,
    cost_rows,
    likelihood_rows,
    stage_rows,
)

BUDGETS = (150, 300)  # tokens
DEPTH = 100  # hits, more than fit in a budget
COMMAND = "python -m tests.benchmarks.measure_ladder"


def budget_rows(indexes: Indexes, questions: Sequence[Question], llm: LocalLLM, fixed: Row) -> list[Row]:
    """Span recall within a budget of tokens, for all questions and for each kind of lost reference."""
    count = functools.cache(llm.count_tokens)
    methods: dict[str, tuple[Retriever, Callable[[Chunk], str]]] = {
        "naive": (indexes.known(indexes.dense[""]), lambda chunk: chunk.text),
        "late": (indexes.known(indexes.late), lambda chunk: chunk.text),
    }
    for name in list(indexes.variants)[1:]:
        search = indexes.known(indexes.dense[name])
        methods[name] = (search, lambda chunk: chunk.contextual_text)
        methods[f"{name}, found by context, text only in the prompt"] = (search, lambda chunk: chunk.text)
    kinds = np.array([question.reference for question in questions])
    rows: list[Row] = []
    for budget in BUDGETS:
        recalls = {}
        for name, (search, written) in methods.items():
            recalls[name] = np.array(
                [
                    span_recall(filled(search(q.text, DEPTH), budget, lambda c, w=written: count(w(c))), q.gold)
                    for q in questions
                ]
            )
            for kind in ("all", *sorted(set(kinds))):
                of_kind = (kinds == kind) | (kind == "all")
                fields = {"table": "budget", **fixed, "budget": budget, "reference": str(kind), "name": name}
                rows.append(fields | results.interval_fields(bootstrap_ci(recalls[name][of_kind])))
                if name != "naive":
                    gain = paired_difference(recalls[name][of_kind], recalls["naive"][of_kind])
                    rows.append(fields | {"table": "budget gain", "below": "naive"} | results.interval_fields(gain))
    return rows


def filled(hits: Sequence[Hit], budget: int, count: Callable[[Chunk], int]) -> list[Chunk]:
    """The first chunks that have at most ``budget`` tokens together."""
    chunks: list[Chunk] = []
    for hit in hits:
        budget -= count(hit.chunk)
        if budget < 0:
            break
        chunks.append(hit.chunk)
    return chunks


def recorded_contexts(corpus: Corpus, chunks: Sequence[Chunk]) -> Variants:
    """SmolLM2's contexts as measure_contexts recorded them; no variant where it has not for this corpus."""
    rows = results.load_result("smollm2_contexts")["rows"]
    contexts = {row["chunk"]: row["context"] for row in rows if row["corpus"] == corpus.name}
    return {"SmolLM2": [replace(chunk, context=contexts.get(chunk.id, "")) for chunk in chunks]} if contexts else {}


def corpora(encoder: Encoder) -> None:
    """The ablation on the built-in corpora: sentences, and for the handbook also sections."""
    began = time.perf_counter()
    llm = LocalLLM.load("smollm2")
    rows: list[Row] = []
    for name, cut in (
        ("cities", "sentence"),
        ("insurance", "sentence"),
        ("handbook", "sentence"),
        ("handbook", "section"),
    ):
        corpus = datasets.load_corpus(name)
        chunker = chunk_sentences if cut == "sentence" else chunk_headings
        pieces = {document.id: chunker(document, size=None) for document in corpus.documents}
        naive = [chunk for chunks in pieces.values() for chunk in chunks]
        headings = [c for d in corpus.documents for c in contextual.add_heading_context(d, pieces[d.id])]
        variants: Variants = {"": naive, "headings": headings}
        if cut == "sentence":
            variants |= recorded_contexts(corpus, naive)
        asked = [question for question in corpus.questions if question.answerable]
        indexes = Indexes(encoder, corpus.documents, variants, [question.text for question in asked])
        place = {"corpus": name, "chunk": cut}
        for language in sorted({question.language for question in asked}):
            questions = [question for question in asked if question.language == language]
            fixed = place | {"language": language}
            ladder = list(indexes.stages(indexes.known))
            if language != "en":  # contexts are recorded for English documents only
                ladder = [stage for stage in ladder if "SmolLM2" not in stage.name]
            rows += stage_rows(ladder, lambda r, q=questions: evaluate.span_recalls(r, q, KS), fixed)
            if language == "en" and cut == "sentence":
                sample = questions[:: max(1, len(questions) // SAMPLE)][:SAMPLE]
                rows += likelihood_rows(
                    {stage.name: stage for stage in ladder},
                    llm,
                    "contextual dense + BM25 (headings)",
                    lambda r, q=sample: evaluate.span_recalls(r, q, KS),
                    fixed,
                )
                rows += budget_rows(indexes, questions, llm, fixed)
        english = [question.text for question in asked if question.language == "en"]
        rows += cost_rows(list(indexes.stages(indexes.live)), encoder, english, place)
        rows += context_rows(corpus.documents, variants, llm, place)
    files = sorted(path for path in datasets.CORPORA.rglob("*.*") if path.is_file())
    model = f"all-MiniLM-L6-v2, {dtype(encoder)}; {llm.name}, {llm.dtype}"
    record("ladder", rows, model, "built-in corpora, answerable questions", files, began)


def codebases(encoder: Encoder) -> None:
    """The ablation on the cookbook's code: its recall at k, and its own fusion, 0.8 / rank + 0.2 / rank."""
    began = time.perf_counter()
    code = datasets.load_codebases()
    pieces = {
        document.id: [chunk for chunk in code.chunks if chunk.doc_id == document.id] for document in code.documents
    }
    variants: Variants = {
        "": [chunk for chunks in pieces.values() for chunk in chunks],
        "declared names": [c for d in code.documents for c in declared_names(d, pieces[d.id])],
        "opening": [c for d in code.documents for c in contextual.add_heading_context(d, pieces[d.id])],
    }
    queries = list(dict.fromkeys(code.queries.values()))
    indexes = Indexes(encoder, code.documents, variants, queries)
    ladder = list(indexes.stages(indexes.known))
    for name in ("", "declared names"):
        dense, terms = indexes.known(indexes.dense[name]), indexes.terms[name]

        cookbook = cookbook_fusion(dense, terms)
        below = f"contextual dense ({name})" if name else "dense"
        fused = f"contextual dense + BM25 ({name})" if name else "dense + BM25"
        ladder.append(Stage(f"{fused}, fused as in the cookbook", below, cookbook, variants[name]))

    def score(retriever: Retriever) -> Recalls:
        rankings = {query: [hit.chunk.id for hit in retriever(query, KS[-1])] for query in queries}
        return {
            k: np.array([recall_at_k(rankings[q], code.relevance[id_], k) for id_, q in code.queries.items()])
            for k in KS
        }

    rows = stage_rows(ladder, score, {"corpus": code.name})
    rows += cost_rows(list(indexes.stages(indexes.live)), encoder, queries, {"corpus": code.name})
    rows += context_rows(code.documents, variants, None, {"corpus": code.name})
    data = "cookbook code data: 90 files, 737 chunks, 248 questions"
    record(
        "ladder_codebases", rows, f"all-MiniLM-L6-v2, {dtype(encoder)}", data, datasets.files_of("codebases"), began
    )


def dtype(encoder: Encoder) -> str:
    """The number format of the encoder's weights."""
    return str(encoder.model.dtype).removeprefix("torch.")


def record(id_: str, rows: list[Row], model: str, data: str, files: Sequence[Path], began: float) -> None:
    """Write the rows with their provenance."""
    results.write_result(
        id_,
        rows,
        model=model,
        data=data,
        sha256=results.digest(files),
        command=f"{COMMAND} {'codebases' if 'codebases' in id_ else 'corpora'}",
        seconds=time.perf_counter() - began,
    )


def main() -> int:
    """Measure what is named."""
    measures = {"corpora": corpora, "codebases": codebases}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="|".join(measures), help="both where none is named")
    what = parser.parse_args().what or list(measures)
    if unknown := set(what) - set(measures):
        parser.error(f"there is nothing named {', '.join(sorted(unknown))} to measure")
    encoder = Encoder.load("minilm", dtype="float32")
    for name in what:
        measures[name](encoder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
