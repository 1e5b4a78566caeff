"""Layers of a model's key-value state with room behind it: one more token is written, and nothing is copied."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

ROOM = 64  # tokens that are written before all that was read is copied once


@cache
def growing_layer() -> Any:
    """transformers' ``DynamicLayer``, which copies all keys and values for each new token, with room for more.

    With some thousand tokens read by several texts side by side, these copies take longer than the model does.
    """
    import torch
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):
        keys: Any
        values: Any

        def __init__(self) -> None:
            super().__init__()
            self._rooms: list[Any] = [None, None]  # of keys and of values
            self._memory: list[Any] = [None, None]  # in which reserved rooms lie

        def reserve(self, lengths: Sequence[int], more: int, key_states: Any, value_states: Any) -> None:
            """Room for texts of so many tokens and ``more``, which end together, with zeros before the shorter ones.

            It takes the place of the room that was reserved before, where that is large enough.
            """
            self.lazy_initialization(key_states, value_states)
            width = max(lengths)
            rooms = []
            for i, like in enumerate((key_states, value_states)):
                shape = (len(lengths), like.shape[1], width + more, like.shape[-1])
                size = math.prod(shape)
                if self._memory[i] is None or len(self._memory[i]) < size:
                    self._rooms[i] = self._memory[i] = None  # given back before more is asked for
                    self._memory[i] = like.new_empty(size)
                rooms.append(self._memory[i][:size].view(shape))
            for row, length in enumerate(lengths):
                for room in rooms:
                    room[row, :, : width - length] = 0  # masked out, which does not help against what is no number
            self._hold(rooms, width)

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self.keys = self._append(0, self.keys, key_states)
            self.values = self._append(1, self.values, value_states)
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            """Rows in their order, each once, move up within the room; otherwise they are copied."""
            numbers = torch.as_tensor(indices)
            rows = [] if numbers.dtype == torch.bool else numbers.tolist()
            held = zip(self._rooms, (self.keys, self.values), strict=True)
            in_room = all(room is not None and room.data_ptr() == x.data_ptr() for room, x in held)
            if not in_room or not rows or rows[0] < 0 or rows != sorted(set(rows)):
                super().batch_select_indices(indices)
                return
            known = self.get_seq_length()
            for room in self._rooms:
                for place, row in enumerate(rows):
                    if place != row:
                        room[place, :, :known] = room[row, :, :known]
            self._hold([room[: len(rows)] for room in self._rooms], known)

        def _hold(self, rooms: list[Any], known: int) -> None:
            self._rooms = rooms
            self.keys, self.values = (room[..., :known, :] for room in rooms)

        def _append(self, i: int, old: Any, new: Any) -> Any:
            """``old`` with ``new`` behind it, in the room where ``old`` still lies in it (it may have been cut)."""
            room, known = self._rooms[i], old.shape[-2] if old.numel() else 0
            width = known + new.shape[-2]
            in_place = room is not None and len(room) == len(new) and room.data_ptr() == old.data_ptr()
            if not in_place or room.shape[-2] < width:
                room = new.new_empty(*new.shape[:2], width + ROOM, new.shape[-1])
                if known:
                    room[..., :known, :] = old
                self._rooms[i] = room
            room[..., known:width, :] = new
            return room[..., :width, :]

    return GrowingLayer


@cache
def row_layer() -> Any:
    """A layer of one text, whose keys and values lie in the room of a ``growing_layer`` for several texts."""
    from transformers.cache_utils import DynamicLayer

    class RowLayer(DynamicLayer):
        keys: Any
        values: Any

        def __init__(self, whole: Any, lengths: Sequence[int], more: int, row: int) -> None:
            super().__init__()
            self._whole, self._lengths, self._more, self._row = whole, lengths, more, row

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self._whole.is_initialized:
                self._whole.reserve(self._lengths, self._more, key_states, value_states)
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            start = max(self._lengths) - self._lengths[self._row]
            known = start + self.get_seq_length()
            stop = known + key_states.shape[-2]
            rows = [x[self._row : self._row + 1] for x in (self._whole.keys, self._whole.values)]
            for row, new in zip(rows, (key_states, value_states), strict=True):
                row[:, :, known:stop] = new
            self.keys, self.values = (row[:, :, start:stop] for row in rows)
            return self.keys, self.values

    return RowLayer


def side_by_side(lengths: Sequence[int], more: int, old: Any = None) -> tuple[Any, list[Any]]:
    """The state of texts of so many tokens, and each text's own part of it; layers come as the model writes them.

    Each text is read into its part, one after the other and to its end; then all go on together, by ``more`` tokens.
    ``old`` is such a state that is done with: its memory is used again, since touching fresh memory takes time.
    """
    from transformers import Cache

    whole = Cache(layer_class_to_replicate=growing_layer()) if old is None else old
    for layer in whole.layers:
        layer.is_initialized = False

    def layers_of(row: int) -> Callable[[], Any]:
        numbers = count()

        def next_layer() -> Any:
            number = next(numbers)
            if number == len(whole.layers):
                whole.layers.append(growing_layer()())
            return row_layer()(whole.layers[number], lengths, more, row)

        return next_layer

    return whole, [Cache(layer_class_to_replicate=layers_of(row)) for row in range(len(lengths))]
