"""The ablation of retrieval: its stages over a set of chunks, and the rows that they give."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rag_lab import results, settings
from rag_lab.llm import pricing
from rag_lab.llm.local import LocalLLM
from rag_lab.metrics import bootstrap_ci, paired_difference
from rag_lab.models.encoder import Encoder
from rag_lab.reproduce.models import cached_vectors
from rag_lab.retrieval import contextual
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.fusion import fused_retriever
from rag_lab.retrieval.rerankers import Reranker, max_sim, query_likelihood, rerank, with_first_stage
from rag_lab.storage import Store, content_key
from rag_lab.types import Chunk, Document, Hit, Retriever

KS = (5, 10, 20)
RERANKED = 50  # hits; only 20 by query likelihood, which must read each of them for every question
TIMED = 20  # questions
SAMPLE = 40  # questions, evenly spread, for the query likelihood
HAIKU = "claude-haiku-5-5"
HAIKU_CONTEXT = 100  # tokens of a context, as the published estimate has it

Variants = dict[str, Sequence[Chunk]]  # "" without context, then by the source of the contexts
Recalls = dict[int, np.ndarray]
Score = Callable[[Retriever], Recalls]
Row = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A retriever over chunks, and the name of the stage ``below`` that it is compared with."""

    name: str
    below: str
    retriever: Retriever
    chunks: Sequence[Chunk]


class Indexes:
    """The vectors of every variant and the late ones, and the vectors of all questions."""

    def __init__(
        self, encoder: Encoder, documents: Sequence[Document], variants: Variants, questions: Sequence[str]
    ) -> None:
        self.encoder = encoder
        self.variants = variants
        naive = variants[""]
        parts = [[document.text for document in documents], [[c.id, c.start, c.end] for c in naive]]
        self.late = DenseIndex(
            naive, cached_vectors(encoder, parts, lambda: encoder.encode_late_corpus(documents, naive))
        )
        self.dense = {}
        for name, chunks in variants.items():
            texts = [chunk.contextual_text for chunk in chunks]
            self.dense[name] = DenseIndex(chunks, cached_vectors(encoder, texts, lambda t=texts: encoder.encode(t)))
        self.terms = {name: BM25Index(chunks).search for name, chunks in variants.items()}
        asked = cached_vectors(encoder, ["query", *questions], lambda: encoder.encode(questions, kind="query"))
        self.questions = dict(zip(questions, asked, strict=True))
        self.max_sim = max_sim(encoder)

    def known(self, index: DenseIndex) -> Retriever:
        """Search with the stored vectors of the questions."""
        return lambda question, k: index.search(self.questions[question], k)

    def live(self, index: DenseIndex) -> Retriever:
        """Search that embeds each question."""
        return dense_retriever(index, self.encoder)

    def stages(self, search: Callable[[DenseIndex], Retriever]) -> Iterator[Stage]:
        """All stages. Rerankers are slow, so only the first variant with contexts has them."""
        naive, dense, late, terms = self.variants[""], search(self.dense[""]), search(self.late), self.terms[""]
        yield Stage("dense", "", dense, naive)
        yield Stage("late", "dense", late, naive)
        yield Stage("BM25", "dense", terms, naive)
        yield Stage("dense + BM25", "dense", fused_retriever([dense, terms]), naive)
        yield Stage("late + BM25", "late", fused_retriever([late, terms]), naive)
        for number, (name, chunks) in enumerate(list(self.variants.items())[1:]):
            contextual_dense, terms = search(self.dense[name]), self.terms[name]
            both = fused_retriever([contextual_dense, terms])
            one, two = f"contextual dense ({name})", f"contextual dense + BM25 ({name})"
            yield Stage(one, "dense", contextual_dense, chunks)
            yield Stage(f"contextual BM25 ({name})", "BM25", terms, chunks)
            yield Stage(two, one, both, chunks)
            yield Stage(f"late + contextual BM25 ({name})", "late", fused_retriever([late, terms]), chunks)
            if number == 0:
                yield Stage(f"{two} + MaxSim alone", two, rerank(both, self.max_sim, RERANKED), chunks)
                yield Stage(f"{two} + MaxSim", two, rerank(both, with_first_stage(self.max_sim), RERANKED), chunks)


def stage_rows(ladder: Sequence[Stage], score: Score, fixed: Row) -> list[Row]:
    """Failure and gain of every stage."""
    recalls: dict[str, Recalls] = {}
    rows = []
    for stage in ladder:
        found = recalls[stage.name] = score(stage.retriever)
        fields = fixed | {"name": stage.name}
        for k in KS:
            failure = results.interval_fields(bootstrap_ci(1 - found[k]))
            rows.append({"table": "failure"} | fields | {"k": k} | failure)
            if stage.below:
                gain = results.interval_fields(paired_difference(found[k], recalls[stage.below][k]))
                rows.append({"table": "gain"} | fields | {"below": stage.below, "k": k} | gain)
        shown = [row for row in rows if row["name"] == stage.name]
        print(stage.name, *fixed.values(), *(results.show_interval(row) for row in shown), sep="  ", flush=True)
    return rows


def likelihood_rows(stages: dict[str, Stage], llm: LocalLLM, below: str, score: Score, fixed: Row) -> list[Row]:
    """The query likelihood on top of a stage, for a sample of the questions."""
    base = stages[below]
    reranker = remembered(query_likelihood(llm), "query likelihood", llm.name, llm.dtype)
    ladder = [
        replace(base, below=""),
        Stage(f"{below} + query likelihood alone", below, rerank(base.retriever, reranker, 20), base.chunks),
        Stage(
            f"{below} + query likelihood",
            below,
            rerank(base.retriever, with_first_stage(reranker), 20),
            base.chunks,
        ),
    ]
    return stage_rows(ladder, score, fixed | {"sample": SAMPLE})


def remembered(reranker: Reranker, *about: str) -> Reranker:
    """The reranker with its orders kept on disk by ``about``, question and hits, so that a run can be resumed."""
    store = Store(settings.cache_folder() / "reranked.jsonl")

    def order(question: str, hits: Sequence[Hit]) -> list[Hit]:
        key = content_key(*about, question, [hit.chunk.contextual_text for hit in hits])
        record = store.get(key)
        if record is None:
            places = {hit.chunk.id: place for place, hit in enumerate(hits)}
            record = {"order": [[places[hit.chunk.id], hit.score] for hit in reranker(question, hits)]}
            store.put(key, record)
        return [Hit(hits[place].chunk, score, rank) for rank, (place, score) in enumerate(record["order"], 1)]

    return order


def cost_rows(ladder: Sequence[Stage], encoder: Encoder, questions: Sequence[str], fixed: Row) -> list[Row]:
    """CPU time of a query on every stage, and the tokens that contexts add to what is embedded."""
    rows = []
    for stage in ladder:
        spent = []
        for question in questions[:TIMED]:
            began = time.process_time()
            stage.retriever(question, KS[-1])
            spent.append(1000 * (time.process_time() - began))
        tokens = sum(encoder.count_tokens(chunk.context) for chunk in stage.chunks)
        rows.append(
            {"table": "cost", **fixed, "name": stage.name, "cpu_ms": round(statistics.median(spent), 2)}
            | {"context_tokens": round(1000 * tokens / len(stage.chunks)), "chunks": len(stage.chunks)}
        )
    return rows


def context_rows(documents: Sequence[Document], variants: Variants, llm: LocalLLM | None, fixed: Row) -> list[Row]:
    """Per thousand chunks: tokens that SmolLM2 read (each document once, thanks to its prefix cache) and wrote.

    Also what Claude Haiku would cost with and without its cache, by ``pricing.token_estimate``, which is on the high
    side.
    """
    chunks = variants[""]
    texts = {document.id: document.text for document in documents}
    per_thousand = 1000 / len(chunks)
    calls = []
    for chunk in chunks:
        before, after = (
            block.text for block in contextual.context_prompt(texts[chunk.doc_id], chunk.text).turns[0].blocks
        )
        tokens = pricing.token_estimate(before)
        calls.append(pricing.Call(pricing.token_estimate(after), HAIKU_CONTEXT, chunk.doc_id, tokens))
    rows = []
    for name, cache in (("with its cache", "5m"), ("without a cache", "")):
        estimate = pricing.estimate(HAIKU, calls, cache)
        rows.append(
            {"table": "contexts", **fixed, "name": f"{HAIKU}, {name}, estimated"}
            | {"dollars": round(estimate.dollars * per_thousand, 4), "notes": list(estimate.notes)}
        )
    if llm and "SmolLM2" in variants:
        written = [chunk for chunk in variants["SmolLM2"] if chunk.context]
        read = {chunk.doc_id: llm.count_tokens(texts[chunk.doc_id]) for chunk in written}
        prompts = sum(
            llm.count_prompt_tokens(contextual.context_prompt(texts[chunk.doc_id], chunk.text, "prefill"))
            for chunk in written
        )
        once = prompts - sum(read[chunk.doc_id] for chunk in written) + sum(read.values())
        output = sum(llm.count_tokens(chunk.context) for chunk in written)
        per_thousand = 1000 / len(written)
        rows.append(
            {
                "table": "contexts",
                **fixed,
                "name": "SmolLM2",
                "tokens_without_prefix_cache": round(prompts * per_thousand),
            }
            | {"tokens_read": round(once * per_thousand), "tokens_written": round(output * per_thousand)}
        )
    return rows
