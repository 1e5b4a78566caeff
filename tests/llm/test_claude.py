"""ClaudeLLM on the real ``anthropic`` client, against a loopback test double."""

import traceback
import warnings

import pytest

from rag_lab.llm import claude, recordings, spending
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Block, Prompt, Turn, Usage, finish
from tests.support.messages_server import (
    COUNT,
    KEY,
    Fault,
    about,
    running_server,  # noqa: F401 (a fixture)
)
from tests.support.messages_server import MessagesServer as Server

HAIKU = "claude-haiku-5-5"


def test_a_prompt_becomes_the_body_that_the_api_takes(messages_server: Server) -> None:
    prompt = Prompt(
        (
            Turn("user", (Block("<document>"), Block("a contract", "5m"), Block(""))),
            Turn("assistant", (Block("Read."),)),
            Turn("user", (Block("Who signs?"),)),
        ),
        (Block("Be brief.", "1h"),),
    )
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    answer = claude.ClaudeLLM(HAIKU).complete(prompt, max_tokens=50, schema=schema)
    assert answer.text == "About Who signs?."
    seen = messages_server.seen[-1]
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    text = {"type": "text"}
    assert seen.body == {
        "model": HAIKU,
        "max_tokens": 50,
        "stream": False,
        "thinking": {"type": "disabled"},  # and no temperature: Haiku 5.5 takes none
        "system": [{**text, "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {**text, "text": "<document>"},
                    {**text, "text": "a contract", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
                ],
            },
            {"role": "assistant", "content": [{**text, "text": "Read."}]},
            {"role": "user", "content": [{**text, "text": "Who signs?"}]},
        ],
        "output_config": {"format": {"type": "json_schema", "schema": {**schema, "additionalProperties": False}}},
    }


def test_what_each_model_is_sent(messages_server: Server) -> None:
    for model in (claude.ANSWER_MODEL, "claude-sonnet-5-5", "claude-haiku-4-5", "local/qwen3"):
        claude.ClaudeLLM(model).complete(Prompt.of("Hello"), max_tokens=10)
    opus, sonnet, old, local = messages_server.asked()
    assert (opus["output_config"], opus["max_tokens"]) == ({"effort": "low"}, 10 + 1024)  # room to think
    assert sonnet["thinking"] == {"type": "between_tools"}
    assert (old["temperature"], old["max_tokens"]) == (0.0, 10)
    assert (local["model"], local["temperature"]) == ("qwen3", 0.0)
    assert "temperature" not in opus | sonnet


def test_usage_and_dollars_of_writes_and_reads(messages_server: Server) -> None:
    document = "d" * 4_000  # 1,000 tokens by the server's count
    model = claude.ClaudeLLM("claude-haiku-4-5")
    messages_server.reply = lambda text: "a context!!!"  # 3 tokens
    first, second = (model.complete(about(c * 40, document)) for c in "ab")
    for got, write, read in ((first, 1_000, 0), (second, 0, 1_000)):
        usage = got.usage
        assert (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens) == (10, write, read)
        assert usage.output_tokens == 3
        assert usage.seconds > 0
        assert usage.dollars == pytest.approx((10 * 1 + write * 1.25 + read * 0.10 + 3 * 5) / 1e6)
    hour = model.complete(about("c", document + "e", cache="1h")).usage
    assert hour.dollars == pytest.approx((hour.cache_write_tokens * 2 + 3 * 5) / 1e6)
    spent = first.usage.dollars + second.usage.dollars + hour.dollars
    assert spending.BUDGET.spent == pytest.approx(spent)


def test_a_prefill_is_continued_if_the_model_takes_one(messages_server: Server) -> None:
    prompt = Prompt.of("Situate it.", prefill="This chunk is about ")
    with pytest.raises(ValueError, match="claude-haiku-5-5 takes no prefill"):
        claude.ClaudeLLM(HAIKU).complete(prompt)
    assert messages_server.seen == []
    messages_server.reply = lambda text: " Berlin."
    old = claude.ClaudeLLM("claude-haiku-4-5")
    assert old.complete(prompt).text == "This chunk is about Berlin."
    assert messages_server.asked()[0]["messages"][-1]["content"][0]["text"] == "This chunk is about"
    pieces = list(old.stream(Prompt.of("Situate.", prefill="It is")))
    assert (pieces[0], "".join(pieces)) == ("It is", "It is Berlin.")


@pytest.mark.parametrize(
    ("prompt", "temperature", "message"),
    [
        (Prompt(()), 0.0, "no text in its last turn"),
        (Prompt.of("  "), 0.0, "no text in its last turn"),
        (Prompt.of("x"), 0.7, "takes no temperature, and it is 0.7"),
        (Prompt((Turn("user", tuple(Block("x", "5m") for _ in range(5))),)), 0.0, "5 cache marks; the API takes 4"),
        (Prompt((Turn("user", (Block("x", "5m"), Block("y", "1h"), Block("z"))),)), 0.0, "1h follows one of 5m"),
        (Prompt.of("x", history=[("assistant", "y")]), 0.0, "The first turn is the assistant's"),
    ],
)
def test_what_the_api_would_refuse_is_refused_before_sending(
    messages_server: Server,
    prompt: Prompt,
    temperature: float,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        claude.ClaudeLLM(HAIKU).complete(prompt, temperature=temperature)
    assert messages_server.seen == []


def test_a_prompt_longer_than_the_window_is_refused_with_both_numbers(messages_server: Server) -> None:
    model = claude.ClaudeLLM("local", window=1_000)
    with pytest.raises(ValueError, match=r"1,003 tokens and its answer may take 256; the window of .* is 1,000"):
        model.complete(Prompt.of("word" * 1_000))
    assert messages_server.asked() == []
    # 800 bytes could be too many tokens, so the server is asked: they are 203, and fit.
    assert model.complete(Prompt.of("word" * 200)).text
    assert len(messages_server.asked(COUNT)) == 2


def test_a_server_that_leaves_fields_out_is_no_error(messages_server: Server) -> None:
    messages_server.bare = True
    model = claude.ClaudeLLM("local", window=8192)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = model.complete(about("Which city?", "Berlin is a city."))
        streamed = finish(model.stream(Prompt.of("Which river?")))
    assert (got.text, got.stop_reason, got.usage.dollars) == ("About Which city?.", "end_turn", 0.0)
    assert (streamed.text, streamed.usage.output_tokens) == ("About Which river?.", 0)


def test_a_stand_in_is_never_named_claude_alone(messages_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert claude.ClaudeLLM().name == f"claude-opus-5-5@{messages_server.url.removeprefix('http://')}"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    assert claude.ClaudeLLM().name == "claude-opus-5-5"


def test_a_prefix_too_short_for_the_cache_is_reported_once(messages_server: Server) -> None:
    model = claude.ClaudeLLM(HAIKU)
    prompts = [about("a", "abc"), about("b", "abd")]  # 0 tokens by the server's count, neither written nor read
    with pytest.warns(UserWarning, match=r"cached nothing: .* minimum length \(512 tokens\)") as told:
        model.complete_groups([prompts])
    assert len(told) == 1


def test_thinking_is_no_part_of_the_answer_and_unknown_fields_no_error() -> None:
    response = {
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "A"}, {"text": "B"}],
        "stop_reason": "model_context_window_exceeded",
        "usage": {"input_tokens": 7, "cache_creation_input_tokens": None, "surprise": 1},
    }
    body = {"messages": [{"role": "user", "content": "x"}]}
    got = claude.completion(body, {"response": response, "seconds": 1.5, "dollars": 0.25})
    assert (got.text, got.stop_reason) == ("AB", "max_tokens")
    assert got.usage == Usage(input_tokens=7, seconds=1.5, dollars=0.25)


# --- faults


@pytest.mark.parametrize("fault", [Fault("status", 429), Fault("status", 529), Fault("status", 500), Fault("drop")])
def test_a_passing_fault_is_retried_and_paid_once(messages_server: Server, fault: Fault) -> None:
    messages_server.faults = [fault]
    got = claude.ClaudeLLM(HAIKU).complete(Prompt.of("one two three"))
    assert got.text == "About one two three."
    assert len(messages_server.asked()) == 2
    assert len(messages_server.billed) == 1
    assert spending.BUDGET.spent == pytest.approx(got.usage.dollars)


def test_a_lasting_fault_is_an_error_with_its_reason_and_costs_nothing(messages_server: Server) -> None:
    messages_server.faults = [Fault("status", 529) for _ in range(claude.RETRIES + 1)]
    model = claude.ClaudeLLM(HAIKU)
    with pytest.raises(CallFailed, match=r"claude-haiku-5-5.*'one two three'.*529.*scripted 529"):
        model.complete(Prompt.of("one two three"))
    assert spending.BUDGET.spent == 0
    assert model.complete(Prompt.of("one two three")).text == "About one two three."


def test_malformed_json_is_an_error_and_counts_in_full(messages_server: Server) -> None:
    messages_server.faults = [Fault("malformed")]
    with pytest.raises(CallFailed, match="JSONDecodeError"):
        claude.ClaudeLLM("claude-haiku-4-5").complete(Prompt.of("one"), max_tokens=1_000)
    assert spending.BUDGET.spent > 1_000 * 5 / 1e6  # perhaps billed: all the output that was asked for, and input
    assert len(recordings.store()) == 0


@pytest.mark.parametrize(("kind", "stop"), [("cut_off", "max_tokens"), ("refusal", "refusal")])
def test_a_cut_off_or_refused_answer_says_so(messages_server: Server, kind: str, stop: str) -> None:
    messages_server.faults = [Fault(kind)]
    assert claude.ClaudeLLM(HAIKU).complete(Prompt.of("one two")).stop_reason == stop


@pytest.mark.parametrize("kind", ["drop_stream", "end_stream", "error_event"])
def test_a_stream_that_breaks_is_an_error_after_what_had_come(messages_server: Server, kind: str) -> None:
    messages_server.faults = [Fault(kind, after=4)]
    model = claude.ClaudeLLM(HAIKU)
    pieces: list[str] = []
    with pytest.raises(CallFailed, match=r"RemoteProtocolError|ended before|overloaded_error"):
        pieces.extend(model.stream(Prompt.of("one two three four")))
    assert "About two three four.".startswith("".join(pieces))
    assert pieces
    assert len(recordings.store()) == 0
    assert spending.BUDGET.spent > 0  # nobody knows what was billed
    whole = finish(model.stream(Prompt.of("one two three four")))
    assert whole.text == "About two three four."
    assert whole.usage.output_tokens == 5


def test_a_stream_that_nobody_reads_to_its_end_counts_in_full(messages_server: Server) -> None:
    stream = claude.ClaudeLLM("claude-haiku-4-5").stream(Prompt.of("one two three"), max_tokens=1_000)
    next(stream)
    stream.close()
    assert spending.BUDGET.spent > 1_000 * 5 / 1e6
    assert spending.BUDGET.left() == pytest.approx(1 - spending.BUDGET.spent)


def test_a_refused_key_ends_the_run_and_is_not_repeated_in_the_error(messages_server: Server) -> None:
    messages_server.faults = [Fault("status", 401) for _ in range(9)]
    prompts = [[Prompt.of(f"question {n}")] for n in range(9)]
    with pytest.raises(RuntimeError, match=r"cannot be called: 401.*Check the key") as refused:
        claude.ClaudeLLM(HAIKU).complete_groups(prompts, at_once=1)
    assert not isinstance(refused.value, CallFailed)
    assert len(messages_server.asked()) == 1
    assert "[key]" in str(refused.value)  # the server repeats it
    assert KEY not in str(refused.value)


def test_two_servers_of_one_host_do_not_share_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for url in ("http://127.0.0.1:8001", "http://127.0.0.1:8002", "http://127.0.0.1:8002/other"):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        names.append(claude.ClaudeLLM("local").request_identity({"messages": []})["server"])
    assert names == ["127.0.0.1:8001", "127.0.0.1:8002", "127.0.0.1:8002/other"]
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    assert "server" not in claude.ClaudeLLM("claude-haiku-4-5").request_identity({"messages": []})


@pytest.mark.parametrize("echo", ["It is", ""])
def test_a_prefill_that_the_server_repeats_is_shown_once(messages_server: Server, echo: str) -> None:
    messages_server.reply = lambda text: f"{echo} Berlin."
    old = claude.ClaudeLLM("claude-haiku-4-5")
    prompt = Prompt.of("Where?", prefill="It is")
    assert "".join(old.stream(prompt)) == "It is Berlin."
    assert old.complete(Prompt.of("Where is it?", prefill="It is")).text == "It is Berlin."


def test_blank_turns_and_blocks_are_left_out() -> None:
    prompt = Prompt.of("Hi", system=" ", history=[("user", "q"), ("assistant", " ")])
    body = claude.ClaudeLLM(HAIKU).request(prompt, 9)
    assert "system" not in body
    assert [(turn["role"], turn["content"][0]["text"]) for turn in body["messages"]] == [
        ("user", "q"),
        ("user", "Hi"),
    ]
    spaced = Prompt((Turn("user", (Block("a"), Block("\n\n", "5m"), Block("b"))),))
    content = claude.ClaudeLLM(HAIKU).request(spaced, 9)["messages"][0]["content"]
    assert [(block["text"], "cache_control" in block) for block in content] == [("a\n\n", True), ("b", False)]


@pytest.mark.parametrize("key", ["sk-MADE-UP\r", " sk-MADE-UP", "sk-MADE-UP\n"])
def test_white_space_around_a_key_is_left_out(
    messages_server: Server, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with pytest.warns(UserWarning, match="ANTHROPIC_API_KEY has white space") as caught:
        claude.ClaudeLLM(HAIKU).complete(Prompt.of("Hi"))
    assert "MADE-UP" not in str(caught[0].message)


@pytest.mark.parametrize("key", ["sk-MADE\nUP", "sk-MADE UP", "sk-MADE\u2011UP"])
def test_a_key_with_characters_that_no_key_has_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("RAG_LAB_MODE", "live")
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    spent = spending.BUDGET.spent
    with pytest.raises(ValueError, match="ANTHROPIC_API_KEY has a character that no key has, at place 8") as refused:
        claude.ClaudeLLM(HAIKU).complete(Prompt.of("Hi"))
    text = "".join(traceback.format_exception(refused.value))
    assert "MADE" not in text.replace(__file__, "")
    assert spending.BUDGET.spent == spent


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_key_that_a_server_repeats_is_in_no_traceback(messages_server: Server, status: int) -> None:
    messages_server.faults = [Fault("status", status)] * 5
    with pytest.raises(RuntimeError) as failed:
        claude.ClaudeLLM(HAIKU).complete(Prompt.of("Hi"))
    assert KEY not in "".join(traceback.format_exception(failed.value))


def test_a_server_that_cannot_be_reached_costs_nothing_and_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_MODE", "live")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")  # the discard port: nothing listens
    monkeypatch.setattr(claude, "RETRIES", 0)
    spent = spending.BUDGET.spent
    with pytest.raises(RuntimeError, match="cannot be reached") as failed:
        claude.ClaudeLLM(HAIKU).complete(Prompt.of("Hi"), max_tokens=2000)
    assert not isinstance(failed.value, CallFailed)
    assert spending.BUDGET.spent == spent
