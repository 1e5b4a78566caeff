"""The work that configurations share: the hits of an index, prompts or quoted answers, and the completion of prompts.

It runs in worker processes, and gives the same in every one: see ``sweep_index``, and prompts are completed one at a
time, since in a batch the others would shape the rounding and so, now and then, a token.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rag_lab import diagnosis, scoring
from rag_lab.answering import Answer, Prepared, prepare
from rag_lab.datasets import Question
from rag_lab.documents import Chunk, Document
from rag_lab.extractive import ExtractiveReader
from rag_lab.llm import Completion, Prompt
from rag_lab.metrics import Outcome
from rag_lab.prompting import Message, order_for_long_context
from rag_lab.search import Hit, Retriever
from rag_lab.store import content_key
from rag_lab.sweep_index import cut, load_encoder, load_llm, one_thread, retrieved
from rag_lab.sweep_keys import NOT_EXTRACTIVE, Configuration
from rag_lab.templates import Template

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
        found.verdict,
        f"{found.verdict}: {found.detail}" if found.detail else found.verdict,
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
