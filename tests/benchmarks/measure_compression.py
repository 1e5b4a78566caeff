"""What compression saves and what it loses: tokens, the gold characters kept, and the likelihood of the right answer.

python -m tests.benchmarks.measure_compression      several minutes (SmolLM2 judges, copies and answers)

For English questions of the handbook and the insurance corpus: the three passages of up to 1,500 characters nearest
to each by MiniLM, and what each method leaves of them. ``gold kept`` is the share of the gold characters in the
passages that is left; ``answer`` is the mean log-likelihood of the accepted answer in nats per token, minus that with
the whole passages.
"""

import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_lab import datasets, results, settings, types
from rag_lab.chunking import chunk_corpus, chunk_paragraphs
from rag_lab.llm.local import LocalLLM
from rag_lab.metrics import bootstrap_ci, span_recall
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.build import build_prompt
from rag_lab.prompting.compression import (
    compress_extract,
    compress_filter,
    keep_judge,
    model_extractor,
    nearest_sentences,
)
from rag_lab.prompting.templates import assign_sources, load_template
from rag_lab.prompting.token_budget import Selection
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.types import Chunk

COMMAND = "python -m tests.benchmarks.measure_compression"
CORPORA = ("handbook", "insurance")
SIZE, PASSAGES = 1500, 3
EVERY, EVERY_ASKED = 6, 12  # question of those answerable, and where SmolLM2 is asked
Method = Callable[[str, Sequence[Chunk]], Selection]


@dataclass(frozen=True)
class Case:
    """A question with the passages retrieved for it and the share of its gold that they hold (above 0)."""

    question: types.Question
    chunks: tuple[Chunk, ...]
    held: float


def load_cases(encoder: Encoder) -> list[Case]:
    """The questions whose gold is, in part at least, in the passages retrieved."""
    cases = []
    for name in CORPORA:
        corpus = datasets.load_corpus(name)
        documents = [d for d in corpus.documents if d.metadata.get("language") == "en"]
        chunks = chunk_corpus(documents, chunk_paragraphs, size=SIZE)
        retrieve = dense_retriever(DenseIndex(chunks, encoder.encode([c.contextual_text for c in chunks])), encoder)
        for question in corpus.questions:
            if question.answerable and question.language == "en":
                found = tuple(hit.chunk for hit in retrieve(question.text, PASSAGES))
                if held := span_recall(found, question.gold):
                    cases.append(Case(question, found, held))
    return cases


def methods(encoder: Encoder, llm: LocalLLM) -> dict[str, tuple[Method, int]]:
    """Each method by name, and how many questions there are to one that it is measured on."""
    scored = keep_judge(llm)

    @functools.cache
    def nearest(question: str, texts: tuple[str, ...]) -> list[list[str]]:
        return [list(found) for found in nearest_sentences(encoder, 3)(question, texts)]

    def extract(count: int, neighbours: bool) -> Method:
        def extractor(question: str, texts: Sequence[str]) -> list[list[str]]:
            return [found[:count] for found in nearest(question, tuple(texts))]

        return lambda question, chunks: compress_extract(question, chunks, extractor, llm.count_tokens, neighbours)

    return {
        "3 nearest sentences, alone": (extract(3, False), EVERY),
        "3 nearest sentences, with neighbours": (extract(3, True), EVERY),
        "1 nearest sentence, alone": (extract(1, False), EVERY),
        "1 nearest sentence, with neighbours": (extract(1, True), EVERY),
        "filter, SmolLM2 judges, at 0.5": (
            lambda question, chunks: compress_filter(question, chunks, scored, 0.5, llm.count_tokens),
            EVERY_ASKED,
        ),
        "extract, SmolLM2 copies, with neighbours": (
            lambda question, chunks: compress_extract(question, chunks, model_extractor(llm, 60), llm.count_tokens),
            EVERY_ASKED,
        ),
    }


def answer_likelihoods(llm: LocalLLM, pairs: Sequence[tuple[Case, Sequence[Chunk]]]) -> list[float]:
    """Nats a token of each question's accepted answer, given the prompt with the chunks beside it."""
    template = load_template(system="prompts/weak.txt")
    prompts = [build_prompt(case.question.text, assign_sources(chunks), template=template) for case, chunks in pairs]
    answers = [case.question.answers[0] for case, _ in pairs]
    totals = llm.log_likelihoods(prompts, answers, batch_size=4)
    return [total / llm.count_tokens(answer) for total, answer in zip(totals, answers, strict=True)]


def measure(
    name: str, method: Method, cases: Sequence[Case], llm: LocalLLM, whole: dict[str, float]
) -> list[dict[str, Any]]:
    """Rows of one method: means over questions with their intervals; the answers are those in ``whole``."""
    selections = [method(case.question.text, case.chunks) for case in cases]
    pairs = list(zip(cases, selections, strict=True))
    asked = [(case, selection.chunks) for case, selection in pairs if case.question.id in whole]
    likelihoods = answer_likelihoods(llm, asked)
    measures = {
        "tokens saved, share": [(s.tokens_before - s.tokens_after) / s.tokens_before for s in selections],
        "gold kept": [span_recall(s.chunks, case.question.gold) / case.held for case, s in pairs],
        "refused, a question": [len(s.unverified_quotes) for s in selections],
        "answer": [value - whole[case.question.id] for (case, _), value in zip(asked, likelihoods, strict=True)],
    }
    rows = [
        {"method": name, "measure": measure} | results.interval_fields(bootstrap_ci(values))
        for measure, values in measures.items()
    ]
    for row in rows:
        print(name, row["measure"], results.show_interval(row), f"n={row['n']}", sep="  ", flush=True)
    return rows


def main() -> int:
    """Measure and record."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm", dtype="float32")
    llm = LocalLLM.load("smollm2")
    cases = load_cases(encoder)
    asked = cases[::EVERY_ASKED]
    likelihoods = answer_likelihoods(llm, [(case, case.chunks) for case in asked])
    whole = {case.question.id: value for case, value in zip(asked, likelihoods, strict=True)}
    rows = [
        row
        for name, (method, every) in methods(encoder, llm).items()
        for row in measure(name, method, cases[::every], llm, whole)
    ]
    files = sorted(p for name in CORPORA for p in (settings.DATA / "corpora" / name).iterdir())
    results.write_result(
        "compression",
        rows,
        model=f"all-MiniLM-L6-v2, float32; SmolLM2-135M-Instruct, {llm.dtype}",
        data=f"handbook and insurance, every sixth of {len(cases)} English questions, {PASSAGES} passages each",
        sha256=results.digest(files),
        command=COMMAND,
        seconds=time.perf_counter() - began,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
