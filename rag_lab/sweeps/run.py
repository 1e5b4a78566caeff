"""What a sweep keeps on disk, under hashes of content: of data, of models, and of the code that made it.

A sweep's indexes: chunks, vectors, and the hits for every question, from disk where they were made before.

The same in every process: one thread, and texts embedded in batches that the chunking alone decides.

The work that configurations share: the hits of an index, prompts or quoted answers, and the completion of prompts.

It runs in worker processes, and gives the same in every one: see ``sweep_index``, and prompts are completed one at a
time, since in a batch the others would shape the rounding and so, now and then, a token.

What a sweep will do, what it may cost, and the keys that its rows are kept under.

The order of a sweep's work: indexes first, then each different prompt once, until a configuration is whole.

Run a sweep: every configuration on every question, work that they share done once, results kept as they come.
"""

import contextlib
import functools
import json
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab import settings
from rag_lab.answering.extractive import ExtractiveReader
from rag_lab.answering.pipeline import Prepared, conclude, failed, prepare
from rag_lab.answering.trace import Answer
from rag_lab.chunking import CHUNKERS
from rag_lab.evaluation import diagnosis, scoring
from rag_lab.llm import claude, pricing, spending
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.load import is_paid
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.pricing import usd
from rag_lab.llm.prompt import Completion, Prompt, Usage
from rag_lab.metrics import Outcome, answer_scores
from rag_lab.models import hub
from rag_lab.models.encoder import Encoder, Kind, Vectors
from rag_lab.prompting.build import Message, build_prompt, order_for_long_context
from rag_lab.prompting.templates import Template, assign_sources
from rag_lab.results import interval_fields
from rag_lab.retrieval import rerankers
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.retrieval.contextual import add_heading_context, context_prompt, situate
from rag_lab.retrieval.dense import DenseIndex, dense_retriever
from rag_lab.retrieval.fusion import fused_retriever
from rag_lab.storage import Store, cached_array, cached_json, content_key
from rag_lab.sweeps.config import (
    DEPTH,
    KEYS,
    MODELS,
    NOT_EXTRACTIVE,
    Configuration,
    Sweep,
    context_unread,
    load_sweep,
)
from rag_lab.types import Chunk, Document, Hit, Question, Retriever

# Part of every key of a cached row, completion, vector and ranking. Raise it when a change in the package changes
# what any of these would be.
CACHE_VERSION = 2
# Configurations that agree in these have the same chunks and vectors.
INDEX_KEYS = (
    "embedding.model",
    "embedding.late",
    "chunking.strategy",
    "chunking.chunk_size",
    "chunking.overlap",
    "context.method",
    "context.model",
)


def folder() -> Path:
    """``sweeps`` in the cache folder."""
    return settings.cache_folder() / "sweeps"


@functools.cache
def completions() -> Store:
    """The completions of local models, one record a prompt. Only the main process writes them."""
    return Store(folder() / "completions.jsonl")


class _Shared:
    """An encoder that embeds every text by itself, and once: sentences recur in many chunks."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vector = functools.lru_cache(maxsize=100_000)(self._embed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def _embed(self, text: str, kind: Kind) -> Vectors:
        return self._encoder.encode([text], kind)[0]

    def together(self, texts: Sequence[str]) -> Vectors:
        """Passages in batches, which is quicker, but shapes the rounding of each by the others."""
        return self._encoder.encode(texts)

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> Vectors:
        vectors = [self._vector(text, kind) for text in texts]
        return np.array(vectors, np.float32).reshape(len(texts), self._encoder.dimension)


@functools.cache
def load_encoder(name: str) -> Any:
    """The encoder, once in a process."""
    return _Shared(Encoder.load(name))


@functools.cache
def load_llm(name: str) -> Any:
    """The model, once in a process."""
    return _Bounding(name) if is_paid(name) else LocalLLM.load(name)


class _Bounding(ClaudeLLM):
    """Counts tokens by an upper bound, without asking the API for every prompt of a sweep."""

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        body = claude.request(self.price, prompt, 1, 0.0, None, self.effort)
        return claude.priced_call(body, pricing.token_bound).window - 1


@functools.cache
def _reranker(name: str, encoder: str) -> rerankers.Reranker:
    if name == "max_sim":
        return rerankers.with_first_stage(rerankers.max_sim(load_encoder(encoder)))
    if name == "query_likelihood":
        return rerankers.with_first_stage(rerankers.query_likelihood(load_llm("smollm2")))
    return rerankers.cross_encoder(name)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: how sums are split among threads shapes their rounding."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def cut(documents: Sequence[Document], settings: Configuration) -> list[Chunk]:
    """The chunks of all documents, with their context."""
    strategy = settings["chunking.strategy"]
    options = {"size": settings["chunking.chunk_size"], "overlap": settings["chunking.overlap"]}
    if strategy == "by_tokens":
        options["tokenizer"] = load_encoder(settings["embedding.model"]).tokenizer
    pieces = {document.id: CHUNKERS[strategy](document, **options) for document in documents}
    if settings["context.method"] == "headings":
        pieces = {document.id: add_heading_context(document, pieces[document.id]) for document in documents}
    chunks = [chunk for found in pieces.values() for chunk in found]
    if settings["context.method"] == "llm":
        from filelock import FileLock

        name = settings["context.model"]
        llm = ClaudeLLM(name) if is_paid(name) else load_llm(name)
        folder().mkdir(parents=True, exist_ok=True)
        with FileLock(folder() / "contexts.lock"):  # two indexes may share the contexts
            chunks = [chunk for chunk, _ in situate(documents, chunks, llm)]
    if not chunks:
        raise ValueError(f"{strategy} cut no chunk from the {len(documents)} documents: they hold no text.")
    return chunks


def retrieved(
    documents: Sequence[Document], questions: Sequence[Question], settings: Configuration, chunks: list[Chunk]
) -> list[list[Hit]]:
    """The first ``DEPTH`` hits for each question, from disk where they were found before."""
    method, rerank, name = (settings[k] for k in ("retrieval.method", "retrieval.rerank", "embedding.model"))
    key = content_key(
        CACHE_VERSION,
        [method, rerank, settings["embedding.late"]],
        hub.model_identity(name) if method != "bm25" or rerank == "max_sim" else "",
        hub.model_identity("smollm2") if rerank == "query_likelihood" else "",
        hub.model_identity(rerank) if rerank not in ("none", "max_sim", "query_likelihood") else "",
        [[chunk.id, chunk.contextual_text, chunk.start] for chunk in chunks],
        [document.text for document in documents] if settings["embedding.late"] else "",
        [question.text for question in questions],
    )

    def search() -> list[list[tuple[int, float]]]:
        position = {chunk.id: i for i, chunk in enumerate(chunks)}
        retriever = _retriever(documents, settings, chunks)
        return [
            [(position[hit.chunk.id], hit.score) for hit in retriever(question.text, DEPTH)] for question in questions
        ]

    ranked = cached_json("sweeps/retrievals", key, search)
    return [[Hit(chunks[i], score, rank) for rank, (i, score) in enumerate(hits, 1)] for hits in ranked]


def _retriever(documents: Sequence[Document], settings: Configuration, chunks: list[Chunk]) -> Retriever:
    retrievers: list[Retriever] = []
    name = settings["embedding.model"]
    if settings["retrieval.method"] in ("dense", "hybrid"):
        index = DenseIndex(chunks, _vectors(documents, settings, chunks))
        retrievers.append(dense_retriever(index, load_encoder(name)))
    if settings["retrieval.method"] in ("bm25", "hybrid"):
        retrievers.append(BM25Index(chunks).search)
    retriever = retrievers[0] if len(retrievers) == 1 else fused_retriever(retrievers)
    if settings["retrieval.rerank"] == "none":
        return retriever
    return rerankers.rerank(retriever, _reranker(settings["retrieval.rerank"], name), DEPTH)


def _vectors(documents: Sequence[Document], settings: Configuration, chunks: list[Chunk]) -> Vectors:
    name, late = settings["embedding.model"], settings["embedding.late"]
    texts = [document.text for document in documents] if late else []
    key = content_key(
        CACHE_VERSION,
        hub.model_identity(name),
        late,
        texts,
        [[chunk.doc_id, chunk.start, chunk.end] if late else chunk.contextual_text for chunk in chunks],
    )

    return cached_array("sweeps/vectors", key, functools.partial(_embedded, documents, settings, chunks))


def _embedded(documents: Sequence[Document], settings: Configuration, chunks: list[Chunk]) -> Vectors:
    encoder = load_encoder(settings["embedding.model"])
    if settings["embedding.late"]:
        return encoder.encode_late_corpus(documents, chunks)
    return encoder.together([chunk.contextual_text for chunk in chunks])


ORDERS: dict[str, Callable[[Sequence[Chunk]], Sequence[Chunk]]] = {
    "ranked": list,
    "long_context": order_for_long_context,
}


@dataclass(frozen=True)
class Group:
    """Configurations of one index, by number, and what they are run on: one unit of parallel work."""

    configurations: Mapping[int, Configuration]
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    templates: Mapping[str, Template]
    histories: Mapping[str, tuple[Message, ...]]


@dataclass(frozen=True)
class Result:
    """What one answer was worth. ``detail`` is a diagnosis' verdict with its detail, if it has one."""

    outcome: Outcome
    verdict: str
    detail: str
    prompt_tokens: int
    output_tokens: int
    dollars: float


@functools.cache
def _reader(encoder: str, threshold: float | None) -> ExtractiveReader:
    return ExtractiveReader(load_encoder(encoder), threshold)


def prepare_group(group: Group) -> dict[int, list[Prepared | Result]]:
    """For each configuration, in the order of the questions: the prompt to complete, or the result of an answer
    that needs no language model."""
    with one_thread():
        chunks = cut(group.documents, next(iter(group.configurations.values())))
        found: dict[str, list[Prepared | Result]] = {}
        keys = {number: _what_counts(settings) for number, settings in group.configurations.items()}
        for number, settings in group.configurations.items():
            if keys[number] not in found:
                found[keys[number]] = _prepare(group, settings, chunks)
        return {number: found[key] for number, key in keys.items()}


def _what_counts(settings: Configuration) -> str:
    """The same for configurations that prepare the same: a reader that only quotes has no prompt to be swept."""
    model = settings["llm.model"]
    rest = NOT_EXTRACTIVE if model == "extractive" else ("llm.temperature", "extractive.")
    return content_key(model, {key: value for key, value in settings.items() if not key.startswith(rest)})


def complete_prompts(model: str, temperature: float, max_tokens: int, prompts: Sequence[Prompt]) -> list[Completion]:
    """What a local model writes to each prompt, one after the other."""
    with one_thread():
        llm = load_llm(model)
        return [llm.complete(prompt, max_tokens=max_tokens, temperature=temperature) for prompt in prompts]


def judge(answer: Answer, question: Question) -> Result:
    """The outcome of an answer and what went wrong with it."""
    found = diagnosis.diagnose(answer, question)
    usage = answer.trace.usage
    return Result(
        scoring.outcome(answer, question),
        found.failure_mode,
        f"{found.failure_mode}: {found.detail}" if found.detail else found.failure_mode,
        usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        usage.output_tokens,
        usage.dollars,
    )


def history(settings: Configuration, histories: Mapping[str, tuple[Message, ...]]) -> tuple[Message, ...]:
    """The last ``dialog_history`` messages of its file."""
    messages = histories[settings["dialog_history_path"]]
    return messages[len(messages) - settings["dialog_history"] :]


def _prepare(group: Group, settings: Configuration, chunks: list[Chunk]) -> list[Prepared | Result]:
    hits = retrieved(group.documents, group.questions, settings, chunks)
    k, model = settings["retrieval.top_k"], settings["llm.model"]
    found: list[Prepared | Result] = []
    if model != "extractive" and (most := settings["llm.max_tokens"]) >= (window := load_llm(model).window):
        raise ValueError(
            f"llm.max_tokens is {most}, and the window of {model} {window}: no room is left for sources."
        )
    for question, ranked in zip(group.questions, hits, strict=True):
        retriever: Retriever = functools.partial(_first, ranked)
        if model == "extractive":
            reader = _reader(settings["embedding.model"], settings["extractive.threshold"])
            found.append(judge(reader.answer(question.text, retriever, k), question))
            continue
        prepared = prepare(
            question.text,
            retriever,
            load_llm(model),
            k,
            threshold=settings["retrieval.threshold"],
            clean=settings["clean_context_instructions"],
            order=ORDERS[settings["prompt.order"]],
            history=history(settings, group.histories),
            template=group.templates[settings["prompt.system_prompt_path"]],
            max_tokens=settings["llm.max_tokens"],
        )
        found.append(prepared)
    return found


def _first(ranked: list[Hit], question: str, k: int) -> list[Hit]:
    return ranked[:k]


CONTEXT_TOKENS = 200  # the most that ``contextual.situate`` lets Claude write for a chunk

# When a key that is not at its default makes no difference to a run, and why.
_WITHOUT_EFFECT: dict[str, tuple[Callable[[Configuration], bool], str]] = {
    "embedding.model": (
        lambda c: (
            c["retrieval.method"] == "bm25"
            and c["retrieval.rerank"] != "max_sim"
            and c["chunking.strategy"] != "by_tokens"
            and c["llm.model"] != "extractive"
        ),
        "nothing is embedded",
    ),
    "embedding.late": (lambda c: c["retrieval.method"] == "bm25", "bm25 searches without vectors"),
    "context.method": (
        context_unread,
        "embedding.late embeds the document itself, and nothing else reads the context",
    ),
    "context.model": (
        lambda c: c["context.method"] != "llm",
        "only context.method llm has a model write the context",
    ),
    "extractive.threshold": (lambda c: c["llm.model"] != "extractive", "it is the extractive reader's"),
    "dialog_history_path": (
        lambda c: not c["dialog_history"] and c["llm.model"] != "extractive",
        "dialog_history is 0",
    ),
}


def plan(sweep: Sweep) -> str:
    """What a run would do and, for paid models, cost. ValueError or RuntimeError where these cannot be called."""
    runs, questions = len(sweep.configurations), len(sweep.questions)
    text = (
        f"{sweep.name}: {runs} runs ({sweep.mode}) with {len(groups(sweep, range(1, runs + 1)))} indexes over "
        f"{len(sweep.documents)} documents, {questions} questions each: {runs * questions} answers."
    )
    text += "".join(f" {note}" for note in _plan_notes(sweep))
    paid = [c for c in sweep.configurations if is_paid(c["llm.model"]) or pays_for_context(c)]
    if not paid:
        return f"{text} No paid model is called."
    for name in {c["llm.model"] for c in paid} | {c["context.model"] for c in paid if pays_for_context(c)}:
        if is_paid(name) and settings.mode() == "offline":
            raise ValueError(
                f"{name} is paid, and RAG_LAB_MODE is 'offline': set it to 'live' with a key, or to 'replay'."
            )
        if is_paid(name) and settings.mode() == "live":
            _ = ClaudeLLM(name).client  # raises where there is no key
    dollars, left = _most_dollars(sweep, paid), spending.BUDGET.left()
    over = "; MORE THAN IS LEFT, the run will stop at the cap" if dollars > left else ""
    return f"{text} Paid models: up to about {usd(dollars)}, if no two prompts are equal; {usd(left)} left{over}."


def _plan_notes(sweep: Sweep) -> list[str]:
    """What the file sets without effect, in how many of the runs."""
    notes, runs = [], len(sweep.configurations)
    quoting = [c for c in sweep.configurations if c["llm.model"] == "extractive"]
    idle = [key for key in KEYS if key.startswith(NOT_EXTRACTIVE) and key != "llm.model"]
    idle = [key for key in idle if key in sweep.swept or any(c[key] != KEYS[key].default for c in quoting)]
    if idle and quoting:
        notes.append(f"To llm.model extractive, which has no prompt, {', '.join(idle)} makes no difference.")
    for key, (without_effect, why) in _WITHOUT_EFFECT.items():
        found = sum(c[key] != KEYS[key].default and without_effect(c) for c in sweep.configurations)
        if found:
            notes.append(f"In {found} of {runs} runs {key} makes no difference: {why}.")
    partly = [c for c in sweep.configurations if c["embedding.late"] and c["context.method"] != "none"]
    partly = [c for c in partly if c["retrieval.method"] != "bm25" and not context_unread(c)]
    if partly:
        notes.append(
            f"In {len(partly)} of {runs} runs the context of context.method reaches BM25 or the reranker only: the "
            "vectors of embedding.late are those of the document itself."
        )
    return notes


def pays_for_context(configuration: Configuration) -> bool:
    """Whether a paid model writes the chunks' context."""
    return configuration["context.method"] == "llm" and is_paid(configuration["context.model"])


def _most_dollars(sweep: Sweep, paid: Sequence[Configuration]) -> float:
    """With the longest passages in every prompt, and answers as long as they may be."""
    total = 0.0
    situated = set()
    for configuration in paid:
        chunks = cut(sweep.documents, configuration | {"context.method": "none"})
        model, index = configuration["llm.model"], repr([configuration[key] for key in INDEX_KEYS[2:]])
        if pays_for_context(configuration) and index not in situated:
            situated.add(index)
            texts = {document.id: document.text for document in sweep.documents}
            contexts = [context_prompt(texts[chunk.doc_id], chunk.text) for chunk in chunks]
            total += ClaudeLLM(configuration["context.model"]).estimate(contexts, CONTEXT_TOKENS).dollars
        if is_paid(model):
            longest = sorted(chunks, key=lambda chunk: -len(chunk.text))[: configuration["retrieval.top_k"]]
            turns = history(configuration, sweep.histories)
            template = sweep.templates[configuration["prompt.system_prompt_path"]]
            sources = assign_sources(longest)
            prompts = [build_prompt(question.text, sources, turns, template) for question in sweep.questions]
            options = (configuration["llm.max_tokens"], configuration["llm.temperature"])
            total += ClaudeLLM(model).estimate(prompts, *options).dollars
    return total


def row_key(sweep: Sweep, configuration: Configuration) -> str:
    """A hash that changes with everything that shapes the row: data, prompts and history, models, code."""
    named = [configuration["embedding.model"], configuration["llm.model"], configuration["retrieval.rerank"]]
    named += [configuration["context.model"]] if configuration["context.method"] == "llm" else []
    named += ["smollm2"] if "query_likelihood" in named else []
    no_models = {name for names in MODELS.values() for name in names}
    local = [name for name in named if not is_paid(name) and name not in no_models]
    return content_key(
        configuration,
        [asdict(document) for document in sweep.documents],
        [asdict(question) for question in sweep.questions],
        asdict(sweep.templates[configuration["prompt.system_prompt_path"]]),
        history(configuration, sweep.histories),
        [hub.model_identity(name) for name in local],
        [ClaudeLLM(name).name for name in named if is_paid(name)],
        CACHE_VERSION,
    )


def groups(sweep: Sweep, numbers: Sequence[int]) -> list[Group]:
    """The configurations of these numbers by index, the first first."""
    found: dict[str, dict[int, Configuration]] = {}
    for number in numbers:
        configuration = sweep.configurations[number - 1]
        index = repr([configuration[key] for key in INDEX_KEYS])
        found.setdefault(index, {})[number] = configuration
    rest = (sweep.documents, sweep.questions, sweep.templates, sweep.histories)
    return [Group(configurations, *rest) for configurations in found.values()]


PROMPTS_A_JOB = 4  # what a worker that is killed loses
IN_FLIGHT = 256

Done = dict[str, Completion | CallFailed]


@dataclass(frozen=True)
class _Job:
    """Work for a worker: a group to prepare, or prompts by key that a model is to complete."""

    group: Group | None
    model: str = ""
    temperature: float = 0.0
    max_tokens: int = 0
    prompts: dict[str, Prompt] | None = None


@dataclass(frozen=True)
class _Open:
    """A configuration, what was prepared for each question, and the key of each prompt ("" for none)."""

    settings: Configuration
    prepared: list[Prepared | Result]
    keys: list[str]


def answered(
    sweep: Sweep, numbers: Sequence[int], executor: Executor | None, advance: Callable[[int], Any]
) -> Iterator[tuple[int, list[Result]]]:
    """The configurations of these numbers with a result for each question, each as soon as it is finished.

    ``advance`` is told how many more answers are there. What a worker raises is raised, and the rest is cancelled.
    """
    waiting = deque(_Job(group) for group in groups(sweep, numbers))
    running: dict[Future[Any], _Job] = {}
    opened: dict[int, _Open] = {}
    missing: Counter[int] = Counter()  # by configuration, the answers that wait for a prompt
    users: dict[str, list[int]] = {}  # by prompt that is asked, the configurations that wait for it
    done: Done = {}
    try:
        while waiting or running:
            while waiting and len(running) < (IN_FLIGHT if executor else 1):
                job = waiting.popleft()
                running[_submit(job, executor)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                touched: list[int] = []
                if job.prompts is None:
                    for number, prepared in future.result().items():
                        opened[number] = one = _open(sweep.configurations[number - 1], prepared)
                        waiting.extendleft(_jobs(one, users, done))
                        for key in one.keys:
                            if key and key not in done:
                                users.setdefault(key, []).append(number)
                                missing[number] += 1
                        advance(len(one.keys) - missing[number])
                        touched.append(number)
                else:
                    written = dict(zip(job.prompts, future.result(), strict=True))
                    completions().put_many({key: asdict(c) for key, c in written.items()})
                    done |= written
                    touched = [number for key in written for number in users.pop(key)]
                    missing.subtract(touched)
                    advance(len(touched))
                for number in dict.fromkeys(touched):
                    if not missing[number]:
                        one = opened.pop(number)
                        parts = zip(one.prepared, one.keys, sweep.questions, strict=True)
                        yield (
                            number,
                            [_result(prepared, done.get(key), question) for prepared, key, question in parts],
                        )
    finally:
        for future in running:
            future.cancel()


def _submit(job: _Job, executor: Executor | None) -> Future[Any]:
    """Work that is paid for stays in this process, whose spending cap it is under."""
    if job.prompts is not None:
        function: Callable[..., Any] = complete_prompts
        arguments: tuple[Any, ...] = (job.model, job.temperature, job.max_tokens, list(job.prompts.values()))
        paid = False
    else:
        assert job.group is not None
        function, arguments = prepare_group, (job.group,)
        paid = any(map(pays_for_context, job.group.configurations.values()))
    if executor is not None and not paid:
        return executor.submit(function, *arguments)
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _open(settings: Configuration, prepared: list[Prepared | Result]) -> _Open:
    model = settings["llm.model"]
    if model == "extractive":
        return _Open(settings, prepared, [""] * len(prepared))
    identity = ClaudeLLM(model).name if is_paid(model) else hub.model_identity(model)
    fixed = (CACHE_VERSION, identity, settings["llm.temperature"], settings["llm.max_tokens"])
    prompts = [item.prompt if isinstance(item, Prepared) else None for item in prepared]
    return _Open(settings, prepared, [content_key(*fixed, asdict(prompt)) if prompt else "" for prompt in prompts])


def _jobs(one: _Open, users: Container[str], done: Done) -> list[_Job]:
    """Jobs for the prompts that nobody asked yet. Known completions, and at once those of a paid model, are done."""
    new: dict[str, Prompt] = {}
    for key, item in zip(one.keys, one.prepared, strict=True):
        if not key or key in users or key in done:
            continue
        record = completions().get(key)
        if record is not None:
            done[key] = Completion(record["text"], Usage(**record["usage"]), record["stop_reason"])
        elif isinstance(item, Prepared) and item.prompt:
            new[key] = item.prompt
    model, temperature, most = (one.settings[f"llm.{name}"] for name in ("model", "temperature", "max_tokens"))
    if is_paid(model):
        if new:
            groups = [[prompt] for prompt in new.values()]
            outcomes = ClaudeLLM(model).complete_groups(groups, most, temperature)
            done.update({key: outcome for key, (outcome,) in zip(new, outcomes, strict=True)})
        return []
    keys = list(new)
    parts = [keys[i : i + PROMPTS_A_JOB] for i in range(0, len(keys), PROMPTS_A_JOB)]
    return [_Job(None, model, temperature, most, {key: new[key] for key in part}) for part in parts]


def _result(prepared: Prepared | Result, completion: Completion | CallFailed | None, question: Question) -> Result:
    if isinstance(prepared, Result):
        return prepared
    if isinstance(completion, CallFailed):
        return judge(failed(prepared, str(completion)), question)
    return judge(conclude(prepared, completion), question)


_START = b'{"number": '  # of every row


def run_sweep(
    config: str | Path | Sweep, executor: Executor | None = None, results: str | Path | None = None
) -> list[dict[str, Any]]:
    """One row a configuration, in their order; ``config`` is a sweep file or a loaded ``Sweep``.

    ``executor`` runs what does not depend on each other side by side: ``ProcessPoolExecutor()``, or a Dask client's
    ``get_executor()``; None is this process. Rows are the same under each, and do not depend on which other
    configurations there are. Paid models are called from this process only, whose spending cap is kept.

    ``results`` (default: ``sweeps/NAME.jsonl`` in the cache folder) gets each row when it is finished, and in the end
    all in order. Run again, a sweep takes up where it was stopped. Rows of other data, prompts, models or code than
    now are dropped, and those with errors run anew. A row: ``number`` from 1, ``key``, ``name`` of the sweep,
    ``configuration``, ``total`` and ``mean`` (with its 95% interval) of ``answer_score``, ``counts`` of the outcomes,
    ``outcomes`` by question id, ``answerable`` (ids), ``diagnosis`` and ``details`` (counts), ``prompt_tokens``,
    ``output_tokens`` and ``dollars`` of its answers, those that it shares included.

    Raises as ``load_sweep`` and, before anything runs, ValueError for a file of other content than results and a
    paid model in mode *offline*, RuntimeError where its key is missing or another process writes to ``results``;
    OverBudget at the cap.
    """
    from filelock import FileLock, Timeout
    from tqdm.auto import tqdm

    sweep = config if isinstance(config, Sweep) else load_sweep(config)
    path = Path(results) if results is not None else folder() / f"{sweep.name}.jsonl"
    print(plan(sweep), file=sys.stderr)
    numbers = {row_key(sweep, c): number for number, c in enumerate(sweep.configurations, 1)}
    keys = {number: key for key, number in numbers.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    locks = folder() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(locks / content_key(str(path.resolve())), timeout=0):
            rows = _finished(path, numbers, sweep.name)
            todo = [number for number in keys if number not in rows]
            total = len(todo) * len(sweep.questions)
            with tqdm(total=total, unit=" answers", disable=not todo) as bar, open(path, "ab", buffering=0) as file:
                for number, found in answered(sweep, todo, executor, bar.update):
                    configuration = sweep.configurations[number - 1]
                    rows[number] = {"number": number, "key": keys[number], "name": sweep.name}
                    rows[number] |= {"configuration": configuration} | _summed(sweep, found)
                    file.write(_line(rows[number]))
                    os.fsync(file.fileno())
            ordered = [rows[number] for number in sorted(rows)]
            _rewrite(path, ordered)
    except Timeout as error:
        raise RuntimeError(f"{path} is being written by another sweep: wait for it, or name another file.") from error
    return ordered


def _summed(sweep: Sweep, results: Sequence[Result]) -> dict[str, Any]:
    scores = answer_scores([result.outcome for result in results])
    return {
        "total": scores.total,
        "mean": interval_fields(scores.mean) if scores.mean else None,
        "counts": scores.counts,
        "outcomes": {question.id: r.outcome for question, r in zip(sweep.questions, results, strict=True)},
        "answerable": [question.id for question in sweep.questions if question.answerable],
        "diagnosis": dict(sorted(Counter(result.verdict for result in results).items())),
        "details": dict(sorted(Counter(result.detail for result in results).items())),
        "prompt_tokens": sum(result.prompt_tokens for result in results),
        "output_tokens": sum(result.output_tokens for result in results),
        "dollars": round(sum(result.dollars for result in results), 6),
    }


def _finished(path: Path, numbers: Mapping[str, int], name: str) -> dict[int, dict[str, Any]]:
    """The rows in the file that still hold, by number; the file is left with these only."""
    if not path.exists():
        return {}
    *lines, cut = path.read_bytes().split(b"\n")  # what follows the last line end is a row that was cut short
    if not (cut.startswith(_START) or _START.startswith(cut)):
        raise ValueError(f"{path}, line {len(lines) + 1} is no row of a sweep: name another file for results.")
    rows: dict[int, dict[str, Any]] = {}
    for place, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            key, errors = row["key"], row["counts"]["error"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {place} is no row of a sweep: name another file for results.") from error
        if key in numbers and not errors:
            number = numbers[key]
            rows[number] = row | {"number": number, "name": name}
    if len(rows) < len(lines):
        print(
            f"{path}: {len(lines) - len(rows)} of {len(lines)} rows are of other data, models, code or settings, or "
            "have errors, and are dropped.",
            file=sys.stderr,
        )
    _rewrite(path, [rows[number] for number in sorted(rows)])
    return rows


def _rewrite(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(b"".join(map(_line, rows)))
    os.replace(part, path)


def _line(row: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode()
