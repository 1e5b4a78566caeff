"""Streams of events: the sources first, the same answer at the end as without a stream, and no half-state."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.answering.pipeline import answer
from rag_lab.answering.streaming import AnswerEvent, DoneEvent, SourcesEvent, stream_answer
from rag_lab.answering.trace import Answer
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.generation import DecodingBatch
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.spending import OverBudget
from rag_lab.prompting.build import REFUSAL
from rag_lab.prompting.citation_markers import Citation, TextDelta
from tests.support.answer_doubles import DOGS, PARKING, Scripted, never, retriever
from tests.support.local_model import smollm2
from tests.support.messages_server import Fault
from tests.support.messages_server import MessagesServer as Server

QUESTION = "Are dogs allowed in the office?"
FOUND = retriever(DOGS, PARKING)


def timeless(given: Answer) -> Answer:
    return replace(given, trace=replace(given.trace, seconds={}, usage=replace(given.trace.usage, seconds=0.0)))


def parts(events: Sequence[AnswerEvent]) -> tuple[SourcesEvent, str, Answer]:
    """The first event, the text of those between, the answer of the last."""
    first, *between, last = events
    assert isinstance(first, SourcesEvent)
    assert isinstance(last, DoneEvent)
    assert all(isinstance(event, TextDelta | Citation) for event in between)
    return first, "".join(event.text for event in between), last.answer


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Dogs may", " [S", "1]", ". ", "[S1][S9]", "\n", "Not in the sources:", "猫。", "😀", "(S2"])
    )
)
def test_a_stream_ends_with_the_answer_that_answer_gives(pieces: list[str]) -> None:
    text = "".join(pieces)
    sources, streamed, got = parts(list(stream_answer(QUESTION, FOUND, Scripted(text))))
    assert timeless(got) == timeless(answer(QUESTION, FOUND, Scripted(text)))
    assert [source.id for source in sources.sources] == ["S1", "S2"]
    assert streamed == text


def test_sources_come_before_the_model_is_asked_and_citations_in_order() -> None:
    llm = Scripted("Dogs may come [S1]. So [S2].")
    events = stream_answer(QUESTION, FOUND, llm)
    assert isinstance(next(events), SourcesEvent)
    assert llm.prompts == []
    rest = list(events)
    assert [event.ids for event in rest if isinstance(event, Citation)] == [("S1",), ("S2",)]
    assert isinstance(rest[0], TextDelta)


@pytest.mark.parametrize("check_first", [False, True])
def test_a_refusal_by_the_gate_is_streamed_without_a_model(check_first: bool) -> None:
    llm = Scripted()
    llm.stream = never
    events = list(stream_answer(QUESTION, FOUND, llm, threshold=2.0, check_first=check_first))
    assert events[:2] == [SourcesEvent(()), TextDelta(REFUSAL)]
    assert parts(events)[2].reason == "no passage over the threshold 2 (best 1)"


# A stream that dies


def check_broken(events: list[AnswerEvent], whole: str) -> None:
    _, streamed, got = parts(events)
    assert (got.status, got.text) == ("error", "")
    assert got.trace.completion_text == streamed  # what was held back came too
    assert whole.startswith(streamed)
    assert 0 < len(streamed) < len(whole)
    assert got.reason.startswith(f"broken off after {len(streamed)} characters: ")


def test_a_stream_that_dies_in_a_marker_gives_what_it_held_back() -> None:
    events = list(stream_answer(QUESTION, FOUND, Scripted("Dogs may [S", CallFailed("model: 529"))))
    check_broken(events, "Dogs may [S1].")
    assert parts(events)[1] == "Dogs may [S"
    assert parts(events)[2].reason == "broken off after 11 characters: model: 529"


@pytest.mark.parametrize("kind", ["drop_stream", "end_stream", "error_event"])
def test_a_stream_of_claude_that_dies_is_an_error(messages_server: Server, kind: str) -> None:
    said = "Dogs are allowed in the office on Fridays [S1]."
    messages_server.reply = lambda text: said
    messages_server.faults = [Fault(kind, after=5)]
    llm = ClaudeLLM("claude-haiku-4-5")
    check_broken(list(stream_answer(QUESTION, FOUND, llm)), said)
    _, streamed, got = parts(list(stream_answer(QUESTION, FOUND, llm)))  # and the next one is whole
    assert (streamed, got.status, got.trace.completion_text) == (said, "answered", said)


def test_a_stream_of_claude_that_dies_is_not_shown_where_checks_come_first(messages_server: Server) -> None:
    messages_server.faults = [Fault("drop_stream", after=3)]
    messages_server.reply = lambda text: "Dogs are allowed in the office on Fridays [S1]."
    _, streamed, got = parts(list(stream_answer(QUESTION, FOUND, ClaudeLLM("claude-haiku-4-5"), check_first=True)))
    assert (streamed, got.status) == ("", "error")
    assert got.trace.completion_text == "Dogs ar"  # a delta has seven characters; two events come before the first


def test_an_error_in_a_local_model_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = smollm2()
    forward = DecodingBatch.forward
    calls: list[Any] = []

    def dying(self: DecodingBatch, *args: Any, **keywords: Any) -> Any:
        calls.append(args)
        if len(calls) > 3:
            raise RuntimeError("not enough memory")
        return forward(self, *args, **keywords)

    monkeypatch.setattr(DecodingBatch, "forward", dying)
    streamed: list[AnswerEvent] = []
    with pytest.raises(RuntimeError, match="not enough memory"):
        streamed.extend(stream_answer(QUESTION, FOUND, llm, max_tokens=12))
    assert any(isinstance(event, TextDelta) for event in streamed)  # it came after the first piece


def test_a_call_that_fails_before_the_first_piece_is_an_error() -> None:
    _, streamed, got = parts(list(stream_answer(QUESTION, FOUND, Scripted(CallFailed("model: 529")))))
    assert (streamed, got.status) == ("", "error")
    assert "model: 529" in got.reason


@pytest.mark.parametrize("check_first", [False, True])
@pytest.mark.parametrize("before", [(), ("Dogs may come. ",)], ids=["at once", "after the first piece"])
@pytest.mark.parametrize("error", [OverBudget("too dear"), TypeError("a bug"), RuntimeError("no key")], ids=repr)
def test_what_is_no_failure_of_the_call_is_raised(
    error: Exception, before: tuple[str, ...], check_first: bool
) -> None:
    with pytest.raises(type(error), match=str(error)):
        list(stream_answer(QUESTION, FOUND, Scripted(*before, error), check_first=check_first))


# Checks first


def test_nothing_comes_before_the_checks_and_a_good_answer_comes_whole() -> None:
    said = "Dogs may come [S1]."
    llm = Scripted(said)
    events = stream_answer(QUESTION, FOUND, llm, check_first=True)
    next(events)
    first = next(events)
    assert first == TextDelta("Dogs may come ")  # whole, not in pieces of three: it was written to its end
    _, streamed, got = parts([SourcesEvent(()), first, *events])
    assert (streamed, got.status, got.text) == (said, "answered", said)


def test_what_fails_a_check_is_not_shown() -> None:
    events = list(stream_answer(QUESTION, FOUND, Scripted("Dogs pay 7 euros [S2]."), check_first=True))
    _, streamed, got = parts(events)
    assert (streamed, got.text, got.status) == (REFUSAL, REFUSAL, "refused")
    assert got.reason == "withheld by the checks: not in the sources cited: 7 euros"
    assert got.trace.completion_text == "Dogs pay 7 euros [S2]."


def test_the_json_form_is_not_streamed() -> None:
    with pytest.raises(ValueError, match="'json' is not streamed"):
        stream_answer(QUESTION, FOUND, Scripted(), form="json")
