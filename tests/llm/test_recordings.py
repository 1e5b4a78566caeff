"""Modes and recorded responses: replayed without a server, never paid twice, no key in them."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anthropic
import pytest

from rag_lab.llm import batches, claude, recordings
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Prompt, finish
from tests.support.messages_server import (
    COUNT,
    KEY,
    Fault,
    running_server,  # noqa: F401 (a fixture)
    written,
)
from tests.support.messages_server import MessagesServer as Server

HAIKU = "claude-haiku-5-5"


def test_a_recorded_request_is_never_paid_again_and_replays_without_a_server(
    messages_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompt = Prompt.of("one two three", system="Brief.")
    first = claude.ClaudeLLM(HAIKU).complete(prompt)
    again = claude.ClaudeLLM(HAIKU).complete(prompt)
    assert first == again
    assert len(messages_server.asked()) == 1
    tokens = claude.ClaudeLLM(HAIKU).count_prompt_tokens(prompt)
    messages_server.close()
    monkeypatch.setenv("RAG_LAB_MODE", "replay")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    model = claude.ClaudeLLM(HAIKU)
    assert model.complete(prompt) == first
    assert list(model.stream(prompt)) == [first.text]
    assert finish(model.stream(prompt)) == first
    assert model.count_prompt_tokens(prompt) == tokens
    assert batches.complete_batch(model, [prompt]) == [first]
    # Everything that shapes an answer makes another request of it, and an unrecorded one is named.
    other = {"max_tokens": 99}, {"schema": {"type": "object"}}
    for arguments in other:
        with pytest.raises(LookupError, match=r"'one two three' to claude-haiku-5-5 \(key [0-9a-f]{64}\)"):
            model.complete(prompt, **arguments)  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="claude-sonnet-5-5"):
        claude.ClaudeLLM("claude-sonnet-5-5").complete(prompt)
    with pytest.raises(LookupError, match="No recording"):
        model.complete(Prompt.of("one two three", system="Long."))


def test_what_a_stand_in_wrote_is_never_replayed_as_claudes(
    messages_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = anthropic.Anthropic(api_key=KEY, base_url=messages_server.url)
    model = claude.ClaudeLLM(HAIKU)
    model.client = client
    model.complete(Prompt.of("one"))
    monkeypatch.setenv("RAG_LAB_MODE", "replay")
    assert claude.ClaudeLLM(HAIKU).complete(Prompt.of("one")).text  # the same server, by ANTHROPIC_BASE_URL
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    with pytest.raises(LookupError):
        claude.ClaudeLLM(HAIKU).complete(Prompt.of("one"))


def test_a_folder_handed_out_is_found_where_it_is_copied_to(
    messages_server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = claude.ClaudeLLM(HAIKU).complete(Prompt.of("one"))
    recorded = recordings.folder()
    monkeypatch.setenv("RAG_LAB_MODE", "replay")
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "laptop"))
    model = claude.ClaudeLLM(HAIKU)
    with pytest.raises(LookupError):
        model.complete(Prompt.of("one"))
    recordings.folder().parent.mkdir(exist_ok=True)
    recorded.rename(recordings.folder())
    assert model.complete(Prompt.of("one")) == first


def test_offline_refuses_to_call_but_estimates_and_counts(
    messages_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAG_LAB_MODE", "offline")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    model = claude.ClaudeLLM(HAIKU)
    for call in (
        lambda: model.complete(Prompt.of("x")),
        lambda: next(model.stream(Prompt.of("x"))),
        lambda: batches.complete_batch(model, [Prompt.of("x")]),
    ):
        with pytest.raises(RuntimeError, match="claude-haiku-5-5 was not called: RAG_LAB_MODE is 'offline'"):
            call()
    assert model.count_tokens("") == 0
    assert model.count_tokens("保险") >= 6  # never fewer than the bytes
    # 10 output tokens at 0.50, and the prompt at 0.10 a million.
    assert model.estimate([Prompt.of("x")], max_tokens=10).output_tokens == 10
    assert messages_server.seen == []


def test_no_key_is_one_sentence(messages_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match=r"^No key for claude-opus-5-5: set ANTHROPIC_API_KEY[^.]*\.$"):
        claude.ClaudeLLM().complete(Prompt.of("x"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_server.url)  # a server of one's own needs none
    assert claude.ClaudeLLM("local").complete(Prompt.of("x")).text


def test_tokens_are_counted_by_the_api_or_bounded(messages_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    model = claude.ClaudeLLM(HAIKU)
    assert model.count_tokens("word" * 10) == 13  # the server's 40 / 4, and 3
    assert model.count_tokens("word" * 10) == 13
    assert len(messages_server.asked(COUNT)) == 1
    messages_server.faults = [Fault("status", 404, path=COUNT)]
    with pytest.warns(UserWarning, match="did not count tokens.*upper bound"):
        assert model.count_tokens("other" * 10) >= 50
    assert messages_server.billed == []


def test_the_key_is_nowhere(messages_server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    messages_server.faults = [Fault("malformed", holds="bad")]
    model = claude.ClaudeLLM(HAIKU)
    model.complete(Prompt.of("good"))
    finish(model.stream(Prompt.of("stream")))
    batches.complete_batch(model, [Prompt.of("batch")], poll_seconds=0.01)
    with pytest.raises(CallFailed) as failure:
        model.complete(Prompt.of("bad"))
    assert "responses.jsonl" in {path.name for path in tmp_path.rglob("*")}
    for place in (
        written(tmp_path),
        caplog.text,
        repr(model),
        str(failure.value),
    ):
        assert KEY not in place


def test_the_same_request_asked_twice_at_once_is_paid_once(messages_server: Server) -> None:
    model = claude.ClaudeLLM(HAIKU)
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: model.complete(Prompt.of("one two")), range(16)))
    assert len(set(got)) == 1
    assert len(messages_server.billed) == 1
