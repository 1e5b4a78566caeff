"""KV caches with spare capacity, so that a new token is appended without a copy; and the prefix cache."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from rag_lab.llm.chat_template import common_length

GROWTH_TOKENS = 64  # capacity to spare, in tokens, when a layer has to grow


@cache
def preallocated_kv_layer() -> Any:
    """The class of a cache layer, made on the first call since transformers is slow to import.

    transformers' own ``DynamicLayer`` copies all keys and values for each new token. For a batch with some thousand
    tokens, that takes longer than the model's forward pass.
    """
    from transformers.cache_utils import DynamicLayer

    class PreallocatedKVLayer(DynamicLayer):
        """``keys`` and ``values`` (rows, key heads, tokens, dimensions) are the start of two larger buffers."""

        def allocate(self, rows: int, capacity: int, like: tuple[Any, Any], length: int) -> None:
            """New buffers of ``capacity`` tokens per row; the first ``length`` count as filled."""
            self.lazy_initialization(*like)
            self.buffers = [x.new_empty(rows, x.shape[1], capacity, x.shape[-1]) for x in like]
            self._set_length(length)

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            new, start = (key_states, value_states), self.get_seq_length()
            end = start + key_states.shape[-2]
            if not self.is_initialized or end > self.buffers[0].shape[-2]:
                old = (self.keys, self.values)
                self.allocate(len(key_states), end + GROWTH_TOKENS, new, end)
                if start:
                    self._write(slice(None), 0, start, old)
            self._write(slice(None), start, end, new)
            self._set_length(end)
            return self.keys, self.values

        def copy_row(self, row: int, source: Any) -> None:
            """Fill a row with the only row of ``source``, left-padded with zeros."""
            start = self.get_seq_length() - source.get_seq_length()
            self._write(row, 0, start, (0, 0))  # zeroed, because masking does not stop NaN
            self._write(row, start, self.get_seq_length(), (source.keys[0], source.values[0]))

        def batch_select_indices(self, indices: list[int]) -> None:
            """Keep these rows, which must increase; they move up within the buffers."""
            for buffer in self.buffers:
                for target, row in enumerate(indices):
                    if target != row:
                        buffer[target] = buffer[row]
            self.buffers = [buffer[: len(indices)] for buffer in self.buffers]
            self._set_length(self.get_seq_length())

        def _write(self, rows: int | slice, start: int, end: int, states: tuple[Any, Any]) -> None:
            for buffer, new in zip(self.buffers, states, strict=True):
                buffer[rows, :, start:end] = new

        def _set_length(self, length: int) -> None:
            self.keys, self.values = (buffer[:, :, :length] for buffer in self.buffers)

    return PreallocatedKVLayer


def empty_cache() -> Any:
    """A transformers ``Cache`` without tokens; its layers are made when the model writes to them."""
    from transformers import Cache

    return Cache(layer_class_to_replicate=preallocated_kv_layer())


def copy_prefix(kv_cache: Any, length: int) -> Any:
    """The first ``length`` tokens of a cache, independent of the original."""
    copy = empty_cache()
    for i, layer in enumerate(kv_cache.layers):
        copy.update(layer.keys[:, :, :length], layer.values[:, :, :length], i)
    return copy


def copy_rows(batch: Any, row: int, source: Any, rows: int, width: int, capacity: int) -> None:
    """Copy a cache of one row to ``row`` of ``batch``, left-padded to ``width`` tokens.

    Buffers for ``rows`` rows of ``capacity`` tokens are made at the first call, when ``batch`` is empty.
    """
    for i, layer in enumerate(source.layers):
        if len(batch.layers) == i:
            batch.layers.append(preallocated_kv_layer()())
            batch.layers[i].allocate(rows, capacity, (layer.keys, layer.values), width)
        batch.layers[i].copy_row(row, layer)


class PrefixCache:
    """The KV caches of the most recent prefixes, at most ``max_tokens`` tokens together (always the last one).

    A token of SmolLM2 takes 45 KB in float32 and half of that in bfloat16. Threads may share it.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._entries: list[tuple[list[int], Any]] = []  # (ids, KV cache), least recently used first
        self._lock = threading.Lock()

    def get(self, ids: list[int], prefill: Callable[[Any, list[int], int], Any]) -> tuple[Any, int]:
        """A KV cache of ``ids`` that may be extended, and how many of them an entry had in its prefix.

        ``prefill(kv_cache, ids, known)`` appends the rest, and the whole is kept.
        """
        with self._lock:
            shared = [common_length(kept, ids) for kept, _ in self._entries]
            known = max(shared, default=0)
            if not known:
                kv_cache = empty_cache()
            else:
                self._entries.append(self._entries.pop(shared.index(known)))
                kv_cache = copy_prefix(self._entries[-1][1], known)
            if known < len(ids):
                prefill(kv_cache, ids, known)
                self._entries.append((ids, copy_prefix(kv_cache, len(ids))))
                while len(self._entries) > 1 and sum(len(kept) for kept, _ in self._entries) > self._max_tokens:
                    self._entries.pop(0)
            return kv_cache, known
