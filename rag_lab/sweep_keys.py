"""The keys of a sweep file: what each may be, and its default."""

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_lab.chunking import CHUNKERS
from rag_lab.injection import parse_mode
from rag_lab.language_models import is_paid
from rag_lab.prompting import Message

Configuration = dict[str, Any]
Read = Callable[[Any], Any]

DEPTH = 50  # hits that every retrieval asks for: a shorter list is its beginning, so configurations share one

# Keys that name a model, and the values of each that name none.
MODELS = {
    "embedding.model": (),
    "context.model": (),
    "retrieval.rerank": ("none", "max_sim", "query_likelihood"),
    "llm.model": ("extractive",),
}

# What makes no difference to llm.model extractive, which has no prompt and only quotes.
NOT_EXTRACTIVE = ("prompt.", "dialog_history", "clean_context_instructions", "llm.", "retrieval.threshold")


@dataclass(frozen=True)
class Key:
    """``read`` gives the value as a configuration holds it; its ValueError says what the value may be."""

    default: Any
    read: Read


def whole(least: int, most: float = math.inf) -> Read:
    """Reads a whole number in [least, most]."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least}" + (f" to {most:g}" if most < math.inf else ""))
        return value

    return read


def _size(value: Any) -> int | None:
    try:
        return None if value is None else whole(1)(value)
    except ValueError as error:
        raise ValueError(f"{error}, or null for one unit a chunk") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise ValueError("a number from 0 to 2")
    return float(value)


def _score(value: Any) -> float | None:
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
    ):
        raise ValueError("a score, or null for none")
    return None if value is None else float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _local(value: Any) -> str:
    if is_paid(_text(value)):
        raise ValueError("minilm, or the hub id or path of an embedding model")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a name or path")
    return value


def _one_of(*names: str) -> Read:
    def read(value: Any) -> str:
        value = "none" if "none" in names and value in (None, False) else value
        if value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value

    return read


def _rerank(value: Any) -> str:
    if value in (None, False):
        return "none"
    if not isinstance(value, str) or is_paid(value):
        raise ValueError("none, max_sim, query_likelihood, or the hub id or path of a cross-encoder")
    return value


def _clean(value: Any) -> str:
    try:
        return parse_mode(value)
    except (ValueError, TypeError) as error:
        raise ValueError("off, flag or strip (false is off, true is strip)") from error


# chunk_size is in the strategy's own unit: words for by_words, tokens for by_tokens, characters for all others. So is
# overlap for raw (characters), by_words and by_tokens; for the others it is in words.
KEYS = {
    "embedding.model": Key("minilm", _local),
    "embedding.late": Key(False, _flag),
    "chunking.strategy": Key("by_paragraphs", _one_of(*CHUNKERS)),
    "chunking.chunk_size": Key(None, _size),
    "chunking.overlap": Key(0, whole(0)),
    "context.method": Key("none", _one_of("none", "headings", "llm")),
    "context.model": Key("smollm2", _text),
    "retrieval.method": Key("dense", _one_of("dense", "bm25", "hybrid")),
    "retrieval.top_k": Key(5, whole(1, DEPTH)),
    "retrieval.rerank": Key("none", _rerank),
    "retrieval.threshold": Key(None, _score),  # the gate of language models, on the first hit's score
    "extractive.threshold": Key(None, _score),  # of llm.model extractive, on the best sentence's cosine
    "prompt.system_prompt_path": Key("prompts/strong.txt", _text),
    "prompt.order": Key("ranked", _one_of("ranked", "long_context")),
    "clean_context_instructions": Key("off", _clean),
    "dialog_history": Key(0, whole(0)),
    "dialog_history_path": Key("dialogs/unrelated.jsonl", _text),
    "llm.model": Key("extractive", _text),
    "llm.temperature": Key(0.0, _number),
    "llm.max_tokens": Key(128, whole(1)),
}


def context_unread(settings: Configuration) -> bool:
    """Whether a chunk's context is there, but nobody reads it.

    Late vectors are those of the document itself, and a prompt quotes the chunk alone: BM25 and rerankers are left.
    """
    elsewhere = settings["retrieval.method"] != "dense" or settings["retrieval.rerank"] != "none"
    return settings["context.method"] != "none" and settings["embedding.late"] and not elsewhere


def default_size(strategy: str) -> int | None:
    """The strategy's own chunk size."""
    return inspect.signature(CHUNKERS[strategy]).parameters["size"].default


def read_history(path: Path) -> tuple[Message, ...]:
    """Messages, oldest first: JSON lines with ``role`` (user or assistant) and ``text``. ValueError for others."""
    messages = []
    # not splitlines, which parts a line at U+2028 too
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            message = (record["role"], record["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f'{path}, line {number} is not {{"role": …, "text": …}}.') from error
        if message[0] not in ("user", "assistant") or not isinstance(message[1], str):
            raise ValueError(f"{path}, line {number}: the role {message[0]!r} is neither user nor assistant.")
        messages.append(message)
    return tuple(messages)
