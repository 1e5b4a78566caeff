"""RAG Lab: how retrieval-augmented generation loses context, and how to win it back.

What most notebooks use can be imported from here; the rest from its room (``from rag_lab.retrieval import rerank``).
Importing the package loads nothing: a name is looked up in its module when it is first used.
"""

import importlib
import os
from typing import Any

__version__ = "0.1.0"

# Idle OpenMP threads busy-wait and waste a core that another program could use. On 2 cores, 30 tokens of SmolLM2 took
# 0.5 s alone and 1.5 s beside a busy process; with threads that sleep after 1,000 turns, 0.7 and 1.1 s
# (``python -m tests.benchmarks.measure_busy_machine``). The OpenMP of torch's Linux builds reads this when
# torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

_MODULES = {name: name for name in ("datasets", "metrics", "notebook", "plots", "results", "settings")}
_MODULES["pricing"] = "llm.pricing"
_DEFINED_IN = {
    "types": ("Chunk", "Document", "Hit"),
    "datasets": ("BERLIN", "load_corpus"),
    "chunking": ("chunk_chars", "chunk_corpus", "chunk_paragraphs", "chunk_sentences"),
    "metrics": ("Interval", "bootstrap_ci", "paired_difference"),
    "results": ("load_result", "published"),
    "llm.local": ("LocalLLM",),
    "llm.prompt": ("Prompt", "Usage"),
    "retrieval.bm25": ("BM25Index",),
    "retrieval.dense": ("DenseIndex", "dense_retriever"),
    "retrieval.fusion": ("reciprocal_rank_fusion",),
    "answering.extractive": ("ExtractiveReader",),
    "notebook": ("claim",),
}
_MODULE_OF = {name: module for module, names in _DEFINED_IN.items() for name in names}

__all__ = sorted([*_MODULES, *_MODULE_OF])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
