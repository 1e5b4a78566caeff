"""A preallocated cache against transformers' own, which copies."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    Cache,
    DynamicCache,
    FalconConfig,
    Gemma4TextConfig,
    MptConfig,
)

from rag_lab.llm.generation import kv_bytes_per_token
from rag_lab.llm.kv_cache import GROWTH_TOKENS, copy_prefix, copy_rows, empty_cache
from tests.support.local_model import tiny_model

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("crop"), st.integers(1, 4)),
        st.tuples(st.just("select"), st.lists(st.integers(0, 3), min_size=1, unique=True).map(sorted)),
    ),
    min_size=1,
    max_size=12,
)


def append(kv_cache: Any, *values: float, rows: int = 1) -> None:
    """Append a token per value: one head and dimension, keys as given and values negative."""
    keys = torch.tensor(values).reshape(1, 1, -1, 1).expand(rows, -1, -1, -1)
    kv_cache.update(keys, -keys, 0)


def keys_of(kv_cache: Any) -> list[list[float]]:
    """Each row's keys; the values must be their negatives."""
    layer = kv_cache.layers[0]
    assert torch.equal(layer.values, -layer.keys)
    return layer.keys[:, 0, :, 0].tolist()


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_it_holds_what_transformers_own_cache_holds(steps: list) -> None:
    torch.manual_seed(0)
    ours, plain = empty_cache(), DynamicCache()
    rows, length = 4, 0
    for what, how in [("append", 3), *steps]:
        if what == "append":
            keys, values = torch.randn(rows, 1, how, 4), torch.randn(rows, 1, how, 4)
            length += how
            for got, expected in zip(ours.update(keys, values, 0), plain.update(keys, values, 0), strict=True):
                assert torch.equal(got, expected)
        elif what == "crop" and how < length:
            length -= how
            ours.crop(-how)
            plain.crop(-how)
        elif what == "select" and how[-1] < rows:
            rows = len(how)
            ours.batch_select_indices(how)
            plain.batch_select_indices(torch.tensor(how))
        assert ours.get_seq_length() == plain.get_seq_length() == length
    assert torch.equal(ours.layers[0].keys, plain.layers[0].keys)
    assert torch.equal(ours.layers[0].values, plain.layers[0].values)


def test_nothing_is_copied_until_the_capacity_is_reached() -> None:
    kv_cache = empty_cache()
    assert isinstance(kv_cache, Cache)
    append(kv_cache, 0.0, 0.0, 0.0)
    address = kv_cache.layers[0].keys.data_ptr()
    for _ in range(GROWTH_TOKENS):
        append(kv_cache, 1.0)
    assert kv_cache.layers[0].keys.data_ptr() == address
    append(kv_cache, 1.0)
    assert kv_cache.layers[0].keys.data_ptr() != address
    assert keys_of(kv_cache) == [[0.0] * 3 + [1.0] * (GROWTH_TOKENS + 1)]


def test_a_copy_grows_apart_from_its_original() -> None:
    kv_cache = empty_cache()
    append(kv_cache, 1.0, 2.0, 3.0)
    copy = copy_prefix(kv_cache, 2)
    with torch.inference_mode():
        append(copy, 4.0)
    append(kv_cache, 7.0)
    assert keys_of(copy) == [[1.0, 2.0, 4.0]]
    assert keys_of(kv_cache) == [[1.0, 2.0, 3.0, 7.0]]


def test_sequences_are_copied_to_the_rows_of_a_batch_that_has_capacity() -> None:
    """Sequences of 1 and 3 tokens end together; the second alone goes on, in the same memory."""
    batch, short, long = empty_cache(), empty_cache(), empty_cache()
    append(short, 1.0)
    append(long, 2.0, 3.0, 4.0)
    for row, source in enumerate((short, long)):
        copy_rows(batch, row, source, rows=2, width=3, capacity=4)
    assert [row[-1] for row in keys_of(batch)] == [1.0, 4.0]
    assert keys_of(batch) == [[0.0, 0.0, 1.0], [2.0, 3.0, 4.0]]
    address = batch.layers[0].keys.data_ptr()
    batch.batch_select_indices([1])
    append(batch, 5.0)
    assert batch.layers[0].keys.data_ptr() == address
    assert keys_of(batch) == [[2.0, 3.0, 4.0, 5.0]]
    assert keys_of(long) == [[2.0, 3.0, 4.0]]


GEMMA_4: dict[str, Any] = {
    "vocab_size": 9,
    "vocab_size_per_layer_input": 9,
    "hidden_size": 32,
    "hidden_size_per_layer_input": 8,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "global_head_dim": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 8,
    "pad_token_id": 0,
}
FALCON = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "vocab_size": 9, "multi_query": True}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Two layers, one key head of 8 dimensions, keys and values in float64: 2 x 8 x 2 x 8 bytes.
        (None, 256),
        # Every head is a key head: 2 layers x 32 dimensions x 2 x 4 bytes.
        (MptConfig(n_layers=2, n_heads=4, d_model=32, vocab_size=9), 512),
        # One key head of 8 dimensions for all, which the config does not name: 2 x 8 x 2 x 4 bytes.
        (FalconConfig(**FALCON), 128),
        # Heads of unlike size, 8 and 16 dimensions, 2 key heads each: (8 + 16) x 2 x 2 x 4 bytes.
        (Gemma4TextConfig(**GEMMA_4), 384),
    ],
)
def test_the_bytes_of_a_token_are_measured(config: Any, expected: int) -> None:
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval() if config else tiny_model()
    assert kv_bytes_per_token(model) == expected
