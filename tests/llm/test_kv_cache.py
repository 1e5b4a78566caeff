"""A state with room against transformers' own, which copies."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Cache, DynamicCache

from rag_lab.llm import kv_cache
from rag_lab.llm.kv_cache import side_by_side
from rag_lab.llm.prefix_cache import copy_state, empty_state

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.integers(1, 4)),
        st.tuples(st.just("keep"), st.lists(st.integers(0, 1), min_size=2, max_size=2)),
    ),
    min_size=1,
    max_size=12,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_the_same_as_copying(steps: list) -> None:
    torch.manual_seed(0)
    ours, plain = empty_state(), DynamicCache()
    known = 0
    for what, how in [("read", 3), *steps]:
        if what == "read":
            keys, values = torch.randn(2, 1, how, 4), torch.randn(2, 1, how, 4)
            known += how
            for got, expected in zip(ours.update(keys, values, 0), plain.update(keys, values, 0), strict=True):
                assert torch.equal(got, expected)
        elif what == "cut" and how < known:
            known -= how
            ours.crop(-how)
            plain.crop(-how)
        elif what == "keep":
            ours.batch_select_indices(torch.tensor(how))
            plain.batch_select_indices(torch.tensor(how))
        assert ours.get_seq_length() == plain.get_seq_length() == known
    assert torch.equal(ours.layers[0].keys, plain.layers[0].keys)
    assert torch.equal(ours.layers[0].values, plain.layers[0].values)


def test_what_was_read_is_not_copied_until_the_room_is_full() -> None:
    state = empty_state()
    assert isinstance(state, Cache)
    state.update(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2), 0)
    place = state.layers[0].keys.data_ptr()
    for _ in range(kv_cache.ROOM):
        state.update(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2), 0)
    assert state.layers[0].keys.data_ptr() == place
    state.update(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2), 0)
    assert state.layers[0].keys.data_ptr() != place
    assert state.layers[0].keys[0, 0, :, 0].tolist() == [0.0] * 3 + [1.0] * (kv_cache.ROOM + 1)


def test_a_copy_grows_apart_from_its_original() -> None:
    state = empty_state()
    state.update(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2), 0)
    copy = copy_state(state, 2)
    with torch.inference_mode():
        copy.update(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2), 0)
    state.update(torch.full((1, 1, 1, 2), 7.0), torch.full((1, 1, 1, 2), 7.0), 0)
    assert copy.layers[0].keys[0, 0, :, 0].tolist() == [0.0, 0.0, 1.0]
    assert state.layers[0].keys[0, 0, :, 0].tolist() == [0.0, 0.0, 0.0, 7.0]


def test_texts_are_read_into_their_rows_of_one_state() -> None:
    """Two texts of 1 and 3 tokens end together; the second alone goes on, in the same room."""
    whole, (short, long) = side_by_side([1, 3], more=1)
    short.update(torch.ones(1, 1, 1, 1), torch.full((1, 1, 1, 1), 5.0), 0)
    long.update(torch.full((1, 1, 2, 1), 2.0), torch.full((1, 1, 2, 1), 6.0), 0)
    keys, values = long.update(torch.full((1, 1, 1, 1), 3.0), torch.full((1, 1, 1, 1), 7.0), 0)
    assert (keys.flatten().tolist(), values.flatten().tolist()) == ([2.0, 2.0, 3.0], [6.0, 6.0, 7.0])
    assert (short.get_seq_length(), long.get_seq_length(), whole.get_seq_length()) == (1, 3, 3)
    assert whole.layers[0].keys[:, 0, :, 0].tolist() == [[0.0, 0.0, 1.0], [2.0, 2.0, 3.0]]
    place = whole.layers[0].keys.data_ptr()
    whole.batch_select_indices([1])
    whole.update(torch.full((1, 1, 1, 1), 4.0), torch.full((1, 1, 1, 1), 8.0), 0)
    assert whole.layers[0].keys.data_ptr() == place
    assert whole.layers[0].keys.flatten().tolist() == [2.0, 2.0, 3.0, 4.0]
    assert whole.layers[0].values.flatten().tolist() == [6.0, 6.0, 7.0, 8.0]


def read_tokens(part: Any, tokens: int, value: float) -> None:
    keys = torch.full((1, 1, tokens, 1), value)
    part.update(keys, -keys, 0)


def test_the_memory_of_texts_that_are_done_with_is_used_again() -> None:
    """A room of 2 x (3 + 2) tokens serves 3 x (2 + 1) too; 3 x (4 + 1) need more."""
    state, parts = side_by_side([3, 3], more=2)
    for part in parts:
        read_tokens(part, 3, 1.0)
    place = state.layers[0].keys.data_ptr()
    state.batch_select_indices([1])  # as after a shorter answer
    state, parts = side_by_side([2, 1, 2], more=1, old=state)
    for part, tokens, value in zip(parts, (2, 1, 2), (4.0, 5.0, 6.0), strict=True):
        read_tokens(part, tokens, value)
    keys, values = state.layers[0].keys, state.layers[0].values
    assert keys.data_ptr() == place
    assert keys[:, 0, :, 0].tolist() == [[4.0, 4.0], [0.0, 5.0], [6.0, 6.0]]
    assert values[:, 0, :, 0].tolist() == [[-4.0, -4.0], [0.0, -5.0], [-6.0, -6.0]]
    assert parts[1].layers[0].keys.flatten().tolist() == [5.0]
    state, parts = side_by_side([4, 4, 4], more=1, old=state)
    for part in parts:
        read_tokens(part, 4, 7.0)
    assert state.layers[0].keys.flatten().tolist() == [7.0] * 12


def test_rows_in_another_order_are_copied() -> None:
    whole, parts = side_by_side([1, 1], more=0)
    for number, part in enumerate(parts):
        part.update(torch.full((1, 1, 1, 1), float(number)), torch.zeros(1, 1, 1, 1), 0)
    whole.batch_select_indices([1, 0, 0])
    assert whole.layers[0].keys.flatten().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(("indices", "left"), [([-1, 0], [1.0, 0.0]), (torch.tensor([False, True]), [1.0])])
def test_rows_counted_from_the_end_or_chosen_by_truth(indices: object, left: list[float]) -> None:
    state = empty_state()
    state.update(torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1), torch.zeros(2, 1, 1, 1), 0)
    state.batch_select_indices(indices)
    assert state.layers[0].keys.flatten().tolist() == left
