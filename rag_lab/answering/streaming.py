"""An answer while it is being written: the sources first, then text and citations, then the checked answer."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from rag_lab.answering.pipeline import Prepared, conclude, failed, prepare, withhold
from rag_lab.answering.trace import Answer
from rag_lab.citations.validation import CitationStream
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Completion, Usage
from rag_lab.prompting.citation_markers import Citation as CitationEvent
from rag_lab.prompting.citation_markers import Text as TextEvent
from rag_lab.prompting.templates import Source
from rag_lab.types import Retriever


@dataclass(frozen=True)
class SourcesEvent:
    """What the answer is written from; no sources where no model is called."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class DoneEvent:
    """The end: the answer with its checks, as ``answering.answer`` gives it."""

    answer: Answer


AnswerEvent = SourcesEvent | TextEvent | CitationEvent | DoneEvent


def stream_answer(
    question: str, retriever: Retriever, llm: Any, k: int = 5, *, check_first: bool = False, **steps: Any
) -> Iterator[AnswerEvent]:
    """The events of an answer: its sources, its text and citations in order, and at the end the answer itself.

    ``steps`` are the keywords of ``prepare``. The texts of the events between, joined, are ``answer.text``, but for
    an error, which has no text: of a stream that dies (``CallFailed``) ``trace.completion_text`` has what had come.
    Anything else, ``OverBudget`` too, is raised, as by ``answer``. With ``check_first``, for matters where a wrong
    answer does harm, nothing of the text comes before it is complete and checked, and one with ``problems`` does not come at all:
    the answer is then a refusal that names them (see ``withhold``). ValueError for the JSON form, half of which is no
    answer, and as ``prepare`` does.
    """
    if steps.get("form", "text") != "text":
        raise ValueError(f"The form {steps['form']!r} is not streamed: use answer(), or the text form.")
    return _events(prepare(question, retriever, llm, k, **steps), llm, check_first)


def _events(prepared: Prepared, llm: Any, check_first: bool) -> Iterator[AnswerEvent]:
    yield SourcesEvent(prepared.sources)
    if prepared.prompt is not None and not check_first:
        stream = CitationStream(prepared.sources)
        pieces = _written(prepared, llm)
        while True:
            try:
                yield from stream.feed(next(pieces))
            except StopIteration as end:
                answer = end.value
                break
        yield from stream.close()
    else:
        answer = conclude(prepared) if prepared.prompt is None else withhold(_last(_written(prepared, llm)))
        stream = CitationStream(answer.sources)
        yield from [*stream.feed(answer.text), *stream.close()]
    yield DoneEvent(answer)


def _written(prepared: Prepared, llm: Any) -> Generator[str, None, Answer]:
    """The model's pieces; in the end the answer, which is an error where the call failed on the way."""
    pieces: list[str] = []
    started = time.perf_counter()
    stream = llm.stream(prepared.prompt, max_tokens=prepared.max_tokens)
    while True:
        try:
            piece = next(stream)
        except StopIteration as end:
            return conclude(prepared, end.value)
        except CallFailed as error:
            so_far = "".join(pieces)
            reason = f"broken off after {len(so_far)} characters: {error}"
            usage = Usage(seconds=time.perf_counter() - started)
            return failed(prepared, reason, Completion(so_far, usage, "error"))
        pieces.append(piece)
        yield piece


def _last(pieces: Generator[str, None, Answer]) -> Answer:
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value
