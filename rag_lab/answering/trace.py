"""An answer and the trace of how it came about; both are saved as JSON Lines."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rag_lab.citations.quotes import QuoteCheck
from rag_lab.citations.validation import CitationReport, CitedSentence, check_numbers
from rag_lab.llm.prompt import Prompt, Usage
from rag_lab.prompting.templates import Source
from rag_lab.prompting.token_budget import Dropped
from rag_lab.storage import append_jsonl, read_jsonl
from rag_lab.text.numbers import Number
from rag_lab.types import Hit

AnswerStatus = Literal["answered", "partial", "refused", "error"]


@dataclass(frozen=True)
class Trace:
    """How an answer came about.

    ``retrieved``: as the retriever ranked them. ``dropped``: what each step (``threshold``, ``clean``, ``filter``,
    ``extract``, ``budget``) left out, and why. ``prompt``: as it was sent; None if no model was called, and then
    ``completion_text`` (the model's text, verbatim), ``thinking`` (what it thought before that) and ``model`` are
    empty. ``usage``: of all calls that returned.
    ``seconds``: of those of the steps ``retrieve``, ``select``, ``complete`` and ``check`` that were finished.
    ``unverified_quotes``: what a compressing model returned that is not in its passage (see ``Selection``).
    """

    question: str
    retrieved: tuple[Hit, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    prompt: Prompt | None = None
    prompt_tokens: int = 0
    completion_text: str = ""
    thinking: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: dict[str, float] = field(default_factory=dict)
    unverified_quotes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What is shown (``text``; empty for an error), its sources, and what the checks found.

    ``sources``: those in the prompt. ``report``: of the markers in ``text``. ``quotes``: each quote that the model
    gave outside its text (in the JSON form, or by Claude's own citations), checked in its source. ``reason``: why the
    answer was refused or failed, or that it was cut off.
    """

    text: str
    status: AnswerStatus
    sources: tuple[Source, ...]
    report: CitationReport
    trace: Trace
    quotes: tuple[QuoteCheck, ...] = ()
    reason: str = ""

    @property
    def cited_ids(self) -> tuple[str, ...]:
        """Every id cited, by a marker or with a quote, valid or not, each once."""
        return tuple(dict.fromkeys([*self.report.cited_ids, *(quote.source_id for quote in self.quotes)]))

    @property
    def invalid_ids(self) -> tuple[str, ...]:
        """The cited ids that no source has."""
        known = {source.id for source in self.sources}
        return tuple(id_ for id_ in self.cited_ids if id_ not in known)

    @property
    def numbers(self) -> tuple[tuple[CitedSentence, tuple[Number, ...]], ...]:
        """The sentences with numbers that are not in their sources (see ``check_numbers``).

        A sentence without a marker is checked against the sources of the quotes, if there are any.
        """
        quoted = tuple(dict.fromkeys(q.source_id for q in self.quotes if q.status != "no_such_source"))
        report = replace(
            self.report,
            sources=tuple(source for source in self.sources if source.id in self.cited_ids),
            sentences=tuple(s if s.ids else replace(s, ids=quoted) for s in self.report.sentences),
        )
        return tuple((sentence, tuple(numbers)) for sentence, numbers in check_numbers(report))

    @property
    def problems(self) -> tuple[str, ...]:
        """Why this answer should not be shown, one phrase per check that failed.

        The checks: invalid ids, sentences without a citation (not if a quote was found, which then supports the whole
        answer), numbers that are not in the sources, and quotes that were not found.
        """
        found = []
        if self.invalid_ids:
            found.append(f"cites {', '.join(self.invalid_ids)}, and there is no such source")
        if self.report.uncited and not any(quote.status == "found" for quote in self.quotes):
            found.append(f"{len(self.report.uncited)} of {len(self.report.sentences)} sentences cite no source")
        if self.numbers:
            texts = [number.text for _, numbers in self.numbers for number in numbers]
            found.append(f"not in the sources cited: {', '.join(texts)}")
        if missing := [q for q in self.quotes if q.status in ("not_found", "too_short")]:
            found.append(f"{len(missing)} of {len(self.quotes)} quotes do not prove what they are quoted for")
        return tuple(found)


def save_answer(answer: Answer, path: str | Path) -> None:
    """Append ``answer`` with its trace as one line of JSON; it is on disk when this returns.

    Raises TypeError if the metadata of a passage contain something that is not JSON.
    """
    append_jsonl(path, [asdict(answer)], default=_plain)


def load_answers(path: str | Path) -> list[Answer]:
    """The answers that ``save_answer`` wrote, in order. A line that was cut short is skipped with a warning.

    Raises ValueError (pydantic's, which names the field) if a line is not an answer of this version.
    """
    from pydantic import TypeAdapter

    return TypeAdapter(list[Answer]).validate_python(read_jsonl(path))


def _plain(value: Any) -> Any:
    """A NumPy number, which a retriever may use as a score, as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} cannot be written as JSON: make it text or a number in the passage's metadata.")
