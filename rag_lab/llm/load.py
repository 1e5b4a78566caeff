"""A language model by name, local or behind the Messages API."""

from rag_lab import settings
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.local import LocalLLM


def is_paid(name: str) -> bool:
    """Whether ``name`` is served by the Messages API: ``claude-…``; ``local`` and ``local/…`` for your own server."""
    return name.startswith(("claude-", "local/")) or name == "local"


def load_llm(name: str | None = None) -> LocalLLM | ClaudeLLM:
    """The model ``name``, by default ``RAG_LAB_LLM``: Claude, or a LocalLLM by short name, hub id or path.

    Raises what ``ClaudeLLM`` and ``LocalLLM.load`` raise.
    """
    name = name or settings.llm_name()
    return ClaudeLLM(name) if is_paid(name) else LocalLLM.load(name)
