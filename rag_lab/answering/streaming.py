"""An answer while it is being written: the sources first, then text and citations, then the checked answer."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

from rag_lab.answering.pipeline import AnswerOptions, Prepared, conclude, failed, prepare, withhold
from rag_lab.answering.trace import Answer
from rag_lab.citations.validation import CitationStream
from rag_lab.llm.language_model import CallFailed, LanguageModel
from rag_lab.llm.prompt import Completion, Usage
from rag_lab.prompting.citation_markers import Citation, TextDelta
from rag_lab.prompting.templates import Source
from rag_lab.types import Retriever


@dataclass(frozen=True)
class SourcesEvent:
    """The sources in the prompt; none if no model is called."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class DoneEvent:
    """The last event: the checked answer, as ``answer`` returns it."""

    answer: Answer


AnswerEvent = SourcesEvent | TextDelta | Citation | DoneEvent


def stream_answer(
    question: str,
    retriever: Retriever,
    llm: LanguageModel,
    k: int = 5,
    *,
    check_first: bool = False,
    **options: Unpack[AnswerOptions],
) -> Iterator[AnswerEvent]:
    """The events of an answer: its sources, its text and citations in order, and at the end the answer itself.

    ``options`` are the keywords of ``prepare``. The texts of the text and citation events, joined, are
    ``answer.text``. If the stream fails (``CallFailed``), the answer is an error without text, and
    ``trace.completion_text`` has what came before; everything else, ``OverBudget`` too, is raised.

    With ``check_first``, for uses where a wrong answer does harm, no text comes before the answer is complete and
    checked. An answer with ``problems`` is withheld: a refusal that names them comes instead (see ``withhold``).
    Raises ValueError for the JSON form, which cannot be shown before it is complete, and as ``prepare`` does.
    """
    if options.get("form", "text") != "text":
        raise ValueError(f"The form {options['form']!r} is not streamed: use answer(), or the text form.")
    return _events(prepare(question, retriever, llm, k, **options), llm, check_first)


def _events(prepared: Prepared, llm: LanguageModel, check_first: bool) -> Iterator[AnswerEvent]:
    yield SourcesEvent(prepared.sources)
    citations = CitationStream(prepared.sources)
    live = prepared.prompt is not None and not check_first
    if prepared.prompt is None:
        answer = conclude(prepared)
    else:
        text, started = "", time.perf_counter()
        deltas = llm.stream(prepared.prompt, max_tokens=prepared.max_tokens)
        while True:
            try:
                delta = next(deltas)
            except StopIteration as end:
                answer = conclude(prepared, end.value)
                break
            except CallFailed as error:
                partial = Completion(text, Usage(seconds=time.perf_counter() - started), "error")
                answer = failed(prepared, f"broken off after {len(text)} characters: {error}", partial)
                break
            text += delta
            if live:
                yield from citations.feed(delta)
    if not live:
        answer = withhold(answer)
        yield from citations.feed(answer.text)
    yield from citations.close()
    yield DoneEvent(answer)
