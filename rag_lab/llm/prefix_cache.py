"""Key-value states of prompts' fixed beginnings, so that a beginning is read once for all that follow it."""

import threading
from typing import Any

from rag_lab.llm.chat_template import common_length
from rag_lab.llm.generation import Reading
from rag_lab.llm.kv_cache import growing_layer


class PrefixCache:
    """The most recent states of one model, which together hold at most ``max_tokens`` tokens (always the last).

    A token of SmolLM2 takes 45 KB in float32 and half of that in bfloat16. Threads may share it.
    """

    def __init__(self, model: Any, max_tokens: int) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._states: list[tuple[list[int], Any]] = []  # (ids, state), least recently used first
        self._lock = threading.Lock()

    def state(self, ids: list[int], rows: int = 1) -> tuple[Any, int]:
        """The state after reading ``ids``, ``rows`` times over, and how many of the ids did not have to be read.

        Those are the longest common beginning with any state kept. The rest is read now and the whole is kept.
        What is returned may be extended freely.
        """
        with self._lock:
            shared = [common_length(kept, ids) for kept, _ in self._states]
            best = max(range(len(shared)), key=shared.__getitem__, default=None)
            if best is None or not shared[best]:
                known, cache = 0, empty_state()
            else:
                known = shared[best]
                self._states.append(self._states.pop(best))
                cache = copy_state(self._states[-1][1], known)
            if known < len(ids):
                Reading(self._model, cache).read([ids[known:]])
                self._states.append((ids, cache))
                while len(self._states) > 1 and sum(len(kept) for kept, _ in self._states) > self._max_tokens:
                    self._states.pop(0)
                return copy_state(cache, len(ids), rows), known
            return (cache if rows == 1 else copy_state(cache, known, rows)), known


def token_bytes(model: Any) -> int:
    """What all layers keep of one token: the model reads one, since configs do not tell it for every model."""
    state = empty_state()
    Reading(model, state).read([[0]])
    kept = (x for layer in state.layers if layer.is_initialized for x in (layer.keys, layer.values))
    return sum(x.numel() * x.element_size() for x in kept)


def empty_state() -> Any:
    """The state before the first token."""
    from transformers import Cache

    return Cache(layer_class_to_replicate=growing_layer())


def copy_state(state: Any, length: int, rows: int = 1) -> Any:
    """The state's first ``length`` tokens, ``rows`` times over, independent of the original."""
    copy = empty_state()
    extend_state(copy, state, length, rows)
    return copy


def extend_state(state: Any, other: Any, length: int, rows: int = 1) -> None:
    """Write the first ``length`` tokens of ``other``, ``rows`` times over, behind what is in ``state``."""
    import torch

    with torch.inference_mode():
        for i, layer in enumerate(other.layers):
            # Keys and values: (rows, heads, tokens, dimensions).
            keys, values = (x[..., :length, :].expand(rows, -1, -1, -1) for x in (layer.keys, layer.values))
            state.update(keys, values, i)
