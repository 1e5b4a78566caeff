"""A language model by its name, local or behind the Messages API."""

from rag_lab import settings
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.local import LocalLLM


def is_paid(name: str) -> bool:
    """Whether a name means the Messages API: ``claude-…``, or ``local`` and ``local/…`` for a server of your own."""
    return name.startswith(("claude-", "local/")) or name == "local"


def load_llm(name: str | None = None) -> LocalLLM | ClaudeLLM:
    """The model ``name``, by default ``RAG_LAB_LLM``'s: Claude, or a bundled model, hub id or path for a LocalLLM.

    Raises what ``ClaudeLLM`` and ``LocalLLM.load`` do.
    """
    name = name or settings.llm_name()
    return ClaudeLLM(name) if is_paid(name) else LocalLLM.load(name)
