"""Answers with their traces, as ``answering`` would make them, from plain texts."""

from collections.abc import Sequence

from rag_lab.answering.trace import Answer, AnswerStatus, Trace
from rag_lab.citations.validation import validate_citations
from rag_lab.prompting.templates import assign_sources
from rag_lab.prompting.token_budget import Dropped
from rag_lab.types import Chunk, Document, GoldSpan, Hit, Question

PAGE = Document("page", "Staff have 28 days a year. The office opens at nine. Dogs are welcome.")


def sentence(text: str, index: int) -> Chunk:
    """A chunk of PAGE."""
    start = PAGE.text.index(text)
    return Chunk("page", index, text, start, start + len(text))


DAYS = sentence("Staff have 28 days a year.", 0)
OPENS = sentence("The office opens at nine.", 1)
DOGS = sentence("Dogs are welcome.", 2)
POSITIVE = Question("q1", "How many days?", ("28 days",), (GoldSpan("page", DAYS.start, DAYS.end),))
NEGATIVE = Question("q2", "Is there a canteen?", (), ())


def answer(
    text: str,
    status: AnswerStatus = "answered",
    sources: Sequence[Chunk] = (),
    retrieved: Sequence[Chunk] | None = None,
    dropped: Sequence[Dropped] = (),
    reason: str = "",
) -> Answer:
    """An answer whose markers [S1], [S2] … are those of ``sources``, which are what was retrieved too."""
    given = tuple(assign_sources(sources))
    chunks = sources if retrieved is None else retrieved
    hits = tuple(Hit(chunk, 1.0, rank) for rank, chunk in enumerate(chunks, 1))
    trace = Trace("?", hits, tuple(dropped), completion_text=text, model="test")
    return Answer(text, status, given, validate_citations(text, given), trace, reason=reason)
