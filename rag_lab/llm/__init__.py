"""Language models, local and Claude: prompts, generation, prices, the spending cap and recordings."""

from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.load import load_llm
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn, Usage

__all__ = [
    "Block",
    "ClaudeLLM",
    "Completion",
    "LocalLLM",
    "Prompt",
    "Turn",
    "Usage",
    "load_llm",
]
