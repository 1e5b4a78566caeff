"""Language models, local and Claude: prompts, generation, prices, the spending cap and recordings."""

from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.load import load_llm
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn, Usage
from rag_lab.llm.structured import InvalidJSON, complete_json

__all__ = [
    "Block",
    "ClaudeLLM",
    "Completion",
    "InvalidJSON",
    "LanguageModel",
    "LocalLLM",
    "Prompt",
    "Turn",
    "Usage",
    "complete_json",
    "load_llm",
]
