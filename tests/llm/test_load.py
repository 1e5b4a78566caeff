"""One place decides which model a notebook runs on."""

import pytest

from rag_lab import notebook
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.load import is_paid, load_llm


@pytest.mark.parametrize(
    ("name", "paid"),
    [
        ("claude-haiku-5-5", True),
        ("local", True),
        ("local/my-server", True),
        ("smollm2", False),
        ("org/claude-like", False),
        ("localised/model", False),
    ],
)
def test_only_the_messages_api_is_paid(name: str, paid: bool) -> None:
    assert is_paid(name) is paid


def test_the_environment_names_the_model_unless_a_name_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_LLM", "claude-haiku-5-5")
    llm = load_llm()
    assert isinstance(llm, ClaudeLLM)
    assert llm.model == "claude-haiku-5-5"
    assert load_llm("claude-opus-5-5").name == "claude-opus-5-5"
    with pytest.raises(ValueError, match="No price is known"):
        load_llm("claude-none")


def test_a_claim_about_the_bundled_model_is_a_finding_with_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_LAB_LLM", "claude-haiku-5-5")
    notebook.claim("small models invent", False)
    assert capsys.readouterr().out == "does not hold with claude-haiku-5-5: small models invent\n"
    monkeypatch.delenv("RAG_LAB_LLM")
    with pytest.raises(AssertionError, match="small models invent"):
        notebook.claim("small models invent", False)
