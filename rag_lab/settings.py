"""Where files live and which mode a run is in. Everything that the environment decides is read here."""

import os
from pathlib import Path

import platformdirs

MODES = ("offline", "live", "replay")

PROJECT = Path(__file__).resolve().parent.parent
DATA = PROJECT / "data"


def mode() -> str:
    """``RAG_LAB_MODE``: ``offline`` (default: local models only), ``live`` (a key may be used) or ``replay``.

    Raises ValueError for any other value.
    """
    value = os.environ.get("RAG_LAB_MODE", "offline")
    if value not in MODES:
        raise ValueError(f"RAG_LAB_MODE is {value!r}; set it to one of {', '.join(MODES)}.")
    return value


def llm_name() -> str:
    """``RAG_LAB_LLM``: the notebooks' language model: short name, hub id, path or ``claude-…`` (default SmolLM2)."""
    return os.environ.get("RAG_LAB_LLM", "smollm2")


def encoder_name() -> str:
    """``RAG_LAB_ENCODER``: the notebooks' encoder, a short name, hub id or path (default MiniLM)."""
    return os.environ.get("RAG_LAB_ENCODER", "minilm")


def dtype() -> str | None:
    """``RAG_LAB_DTYPE``: the number format of all models, float32 or bfloat16; None (default) is the quicker one.

    Raises ValueError for any other value.
    """
    value = os.environ.get("RAG_LAB_DTYPE") or None
    if value not in (None, "float32", "bfloat16"):
        raise ValueError(f"RAG_LAB_DTYPE is {value!r}; set it to float32 or bfloat16, or leave it out.")
    return value


def allow_remote_code() -> bool:
    """Whether ``RAG_LAB_REMOTE_CODE`` is ``1``: the encoder's own Python code from the hub may be run."""
    return os.environ.get("RAG_LAB_REMOTE_CODE") == "1"


def cache_folder() -> Path:
    """``RAG_LAB_CACHE``, else the user's cache folder for this platform; made if missing."""
    chosen = os.environ.get("RAG_LAB_CACHE")
    folder = Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("rag_lab"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def published_data_folders() -> list[Path]:
    """Folders searched for published data sets, in order: ``RAG_LAB_DATA`` if set, then the cache."""
    chosen = os.environ.get("RAG_LAB_DATA")
    folders = [Path(chosen).expanduser()] if chosen else []
    return [*folders, cache_folder() / "data"]
