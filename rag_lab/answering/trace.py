"""What an answer is, and the trace of how it came about; both are kept as lines of JSON."""

import functools
import json
import os
import types
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rag_lab.citations.quotes import QuoteCheck
from rag_lab.citations.validation import CitationReport, CitedSentence, check_numbers
from rag_lab.llm.prompt import Prompt, Usage
from rag_lab.prompting.templates import Source
from rag_lab.prompting.token_budget import Dropped
from rag_lab.text.numbers import Number
from rag_lab.types import Hit

AnswerStatus = Literal["answered", "partial", "refused", "error"]


@dataclass(frozen=True)
class Trace:
    """How an answer came about.

    ``retrieved``: as the retriever ranked them. ``dropped``: what each step (``gate``, ``clean``, ``filter``,
    ``extract``, ``budget``) left out, and why. ``not_found``: what a compressing model returned that its passage does
    not hold (see ``Selection.refused``). ``prompt``: as it was sent, or None where no model was called; then
    ``written`` (the model's words, verbatim) and ``model`` are empty. ``usage`` is of all calls that came back.
    ``seconds``: of the steps retrieve, select, write and check that were taken.
    """

    question: str
    retrieved: tuple[Hit, ...]
    dropped: tuple[Dropped, ...]
    prompt: Prompt | None
    prompt_tokens: int
    completion_text: str
    model: str
    usage: Usage
    seconds: dict[str, float]
    unverified_quotes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What is shown (``text``; empty for an error), what it rests on, and what the checks found.

    ``sources``: those in the prompt. ``report``: of the markers in ``text``. ``quotes``: each quote that the model
    gave apart from its text (the JSON form, Claude's own citations), held against its source. ``reason``: why it was
    refused or failed, or where it was cut off.
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
        """The sentences with numbers that their sources do not hold (see ``citations.check_numbers``).

        A sentence without a marker is held against the sources that quotes were given from, if there are any.
        """
        quoted = tuple(dict.fromkeys(q.source_id for q in self.quotes if q.status != "no_such_source"))
        lent = replace(
            self.report,
            sources=tuple(source for source in self.sources if source.id in self.cited_ids),
            sentences=tuple(s if s.ids else replace(s, ids=quoted) for s in self.report.sentences),
        )
        return tuple((sentence, tuple(numbers)) for sentence, numbers in check_numbers(lent))

    @property
    def problems(self) -> tuple[str, ...]:
        """What the checks have against showing this answer, a sentence each; empty where nothing.

        Invalid ids, sentences that cite nothing (none of them where quotes were found, which then carry the whole
        answer), numbers that the sources do not hold, and quotes that were not found.
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

    TypeError where the metadata of a passage hold what JSON cannot.
    """
    line = json.dumps(asdict(answer), default=_plain).encode("ascii") + b"\n"  # no character can fail to be written
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":  # a write was cut short: do not join it
                line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def load_answers(path: str | Path) -> list[Answer]:
    """What ``save_answer`` wrote, in order. A line that was cut short is skipped with a warning."""
    answers = []
    unreadable = 0
    for line in Path(path).read_bytes().split(b"\n"):
        if line.strip():
            try:
                answers.append(_built(Answer, json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError):
                unreadable += 1
    if unreadable:
        warnings.warn(f"{path}: {unreadable} unreadable line(s) skipped (a write was cut short).", stacklevel=2)
    return answers


def _plain(value: Any) -> Any:
    """A retriever may score in NumPy's numbers."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} cannot be written as JSON: make it text or a number in the passage's metadata.")


def _built(kind: Any, value: Any) -> Any:
    """A value of type ``kind`` from what JSON keeps of it."""
    parts = get_args(kind)
    if isinstance(kind, types.UnionType):  # X | None
        return None if value is None else _built(parts[0], value)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(**{name: _built(hints[name], part) for name, part in value.items()})
    if get_origin(kind) is tuple:
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_built(part, item) for part, item in zip(kinds, value, strict=True))
    return value


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
