"""A layer of a model's key-value state with room behind it: one more token is written, and nothing is copied."""

from functools import cache
from typing import Any

ROOM = 64  # tokens that are written before all that was read is copied once


@cache
def growing_layer() -> Any:
    """transformers' ``DynamicLayer``, which copies all keys and values for each new token, with room for more.

    With some thousand tokens read by several texts side by side, these copies take longer than the model does.
    """
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):
        keys: Any
        values: Any

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
                self._room: list[Any] = [None, None]
            self.keys = self._append(0, self.keys, key_states)
            self.values = self._append(1, self.values, value_states)
            return self.keys, self.values

        def _append(self, i: int, old: Any, new: Any) -> Any:
            """``old`` with ``new`` behind it, in the room where ``old`` still lies in it (it may have been cut)."""
            room, known = self._room[i], old.shape[-2] if old.numel() else 0
            width = known + new.shape[-2]
            in_place = room is not None and len(room) == len(new) and room.data_ptr() == old.data_ptr()
            if not in_place or room.shape[-2] < width:
                room = new.new_empty(*new.shape[:2], width + ROOM, new.shape[-1])
                if known:
                    room[..., :known, :] = old
                self._room[i] = room
            room[..., known:width, :] = new
            return room[..., :width, :]

    return GrowingLayer
