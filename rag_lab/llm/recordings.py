"""Recorded responses of paid models: each request is sent once, and replayed without a key."""

import datetime
import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_lab import settings
from rag_lab.storage import Store, content_key


def folder() -> Path:
    """``recordings`` in the cache folder: the folder to give to others."""
    return settings.cache_folder() / "recordings"


_opening = threading.Lock()


@functools.cache
def _open(path: Path) -> Store:
    return Store(path)


def store() -> Store:
    """The recorded responses. The whole process shares one open file."""
    with _opening:
        return _open(folder() / "responses.jsonl")


def find(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """The response recorded under ``content_key(request)``, or None if it must be sent (mode *live* only).

    ``request`` holds everything that shapes the response, and no API key. Raises RuntimeError in mode *offline*, in
    which only local models run, and LookupError in mode *replay* if the request is not recorded.
    """
    mode = settings.mode()
    if mode == "offline":
        raise RuntimeError(
            f"{request['model']} was not called: RAG_LAB_MODE is 'offline' (local models only). Set it to 'live' "
            "with a key in ANTHROPIC_API_KEY, or to 'replay' with a folder of recorded responses."
        )
    key = content_key(request)
    if record := store().get(key):
        return record
    if mode == "replay":
        _open.cache_clear()  # the folder may have been copied here since it was opened
        if record := store().get(key):
            return record
        raise LookupError(
            f"No recording of the request {first_words(request)!r} to {request['model']} (key {key}) in "
            f"{folder()}: record it with RAG_LAB_MODE=live, or set RAG_LAB_CACHE to the folder of `recordings`."
        )
    return None


def keep(key: str, model: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Store ``record`` under ``key``, with the model and today's date; it is on disk when this returns."""
    dated = {"model": model, "date": datetime.date.today().isoformat(), **record}
    store().put(key, dated)
    return dated


def first_words(request: Mapping[str, Any]) -> str:
    """The first 60 characters of a request's last message."""
    texts = (block.get("text", "") for block in request["messages"][-1]["content"])
    return " ".join(" ".join(texts).split())[:60]
