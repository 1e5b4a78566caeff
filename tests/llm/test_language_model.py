"""One interface for local models and for Claude."""

import pytest

from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import LanguageModel, gives_likelihoods
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Prompt
from tests.support.local_model import smollm2
from tests.support.messages_server import MessagesServer, running_server  # noqa: F401

MEMBERS = [*LanguageModel.__annotations__, *(name for name in vars(LanguageModel) if not name.startswith("_"))]


def test_both_have_every_member() -> None:
    local, claude = smollm2(), ClaudeLLM("claude-haiku-5-5")
    for llm in (local, claude):
        assert all(hasattr(llm, name) for name in MEMBERS)
    assert (local.identity, local.dtype, local.paid, local.enforces_schema) == ("smollm2", "float32", False, False)
    assert (claude.identity, claude.dtype, claude.paid, claude.enforces_schema) == (claude.name, "", True, True)
    assert gives_likelihoods(local)
    assert not gives_likelihoods(claude)


def test_groups_keep_their_order_and_size() -> None:
    llm = smollm2()
    prompts = [Prompt.of(f"Count to {number}.") for number in range(3)]
    (first, second), nothing, (third,) = llm.complete_groups([prompts[:2], [], prompts[2:]], max_tokens=4)
    assert nothing == []
    assert [one.text for one in (first, second, third)] == [one.text for one in llm.complete_many(prompts, 4)]


@pytest.mark.parametrize("load", [smollm2, lambda: ClaudeLLM("claude-haiku-5-5")])
def test_no_tokens_are_refused(load) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        load().complete(Prompt.of("Hi"), max_tokens=0)


def test_claude_takes_stop_texts(messages_server: MessagesServer) -> None:
    llm = ClaudeLLM("claude-haiku-5-5")
    llm.complete(Prompt.of("Hi"), stop=("END",))
    llm.complete(Prompt.of("Hi"))
    with_stop, without = messages_server.asked()
    assert with_stop["stop_sequences"] == ["END"]
    assert "stop_sequences" not in without
    with pytest.raises(ValueError, match="blank"):
        llm.complete(Prompt.of("Hi"), stop=("\n",))


def test_many_prompts_are_completed_in_order(messages_server: MessagesServer) -> None:
    prompts = [Prompt.of(f"question {number}") for number in range(6)]
    completions = ClaudeLLM("claude-haiku-5-5").complete_many(prompts)
    assert [one.text for one in completions] == [f"About question {number}." for number in range(6)]


def test_the_bundled_model_is_stored_under_its_short_name() -> None:
    assert LocalLLM.load("smollm2").identity == "smollm2"
