from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, FalconConfig, Gemma4TextConfig, MptConfig

from rag_lab.llm import prefix_cache
from rag_lab.llm.generation import Reading
from rag_lab.llm.prefix_cache import PrefixCache, token_bytes
from tests.support.local_model import tiny_model

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


class Counting(Reading):
    """Reading that notes how many ids it is given."""

    read_ids: list[int] = []  # noqa: RUF012

    def read(self, rows: list[list[int]], keep: int = 1) -> torch.Tensor:
        self.read_ids.append(len(rows[0]))
        return super().read(rows, keep)


@pytest.fixture
def read_ids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(prefix_cache, "Reading", Counting)
    monkeypatch.setattr(Counting, "read_ids", [])
    return Counting.read_ids


def test_only_what_differs_is_read(read_ids: list[int]) -> None:
    cache = PrefixCache(tiny_model(), max_tokens=100)
    assert cache.state([1, 2, 3, 4])[1] == 0
    assert cache.state([1, 2, 3, 4])[1] == 4  # the same again: nothing
    assert cache.state([1, 2])[1] == 2  # a beginning of it: nothing
    assert cache.state([1, 2, 9, 9, 9])[1] == 2  # it branches off after two
    assert cache.state([1, 2, 3, 4, 5])[1] == 4  # the longer of two that fit
    assert read_ids == [4, 3, 1]


def test_the_least_recently_used_states_go_first(read_ids: list[int]) -> None:
    cache = PrefixCache(tiny_model(), max_tokens=8)
    for ids in ([1] * 4, [2] * 4, [1] * 4, [3] * 4):  # the third makes the ones newer than the twos
        cache.state(ids)
    assert cache.state([1] * 4)[1] == 4
    assert cache.state([2] * 4)[1] == 0
    assert cache.state([5] * 20)[1] == 0  # more than max_tokens: kept alone
    assert cache.state([5] * 20)[1] == 20
    assert cache.state([1] * 4)[1] == 0


def test_what_a_token_takes_is_what_its_state_holds() -> None:
    """Two layers, one key head of 8 dimensions, keys and values in float64: 2 x 1 x 8 x 2 x 8 bytes."""
    state = PrefixCache(tiny_model(), max_tokens=9).state([1])[0]
    held = sum(x.numel() * x.element_size() for layer in state.layers for x in (layer.keys, layer.values))
    assert token_bytes(tiny_model()) == held == 256


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Every head is a key head: 2 layers x 32 dimensions x 2 x 4 bytes.
        (MptConfig(n_layers=2, n_heads=4, d_model=32, vocab_size=9), 512),
        # One key head of 8 dimensions for all, which its config does not name: 2 x 8 x 2 x 4 bytes.
        (
            FalconConfig(num_hidden_layers=2, num_attention_heads=4, hidden_size=32, vocab_size=9, multi_query=True),
            128,
        ),
        # Heads of unlike size, 8 and 16 dimensions, 2 key heads each: (8 + 16) x 2 x 2 x 4 bytes.
        (Gemma4TextConfig(**GEMMA_4), 384),
    ],
)
def test_what_a_token_takes_is_measured(config: Any, expected: int) -> None:
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    assert token_bytes(model) == expected


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=6), st.integers(1, 3))
def test_a_reused_state_goes_on_as_if_all_had_been_read(prefixes: list[list[int]], rows: int) -> None:
    cache = PrefixCache(tiny_model(), max_tokens=20)
    for prefix in prefixes:
        state, _ = cache.state(prefix, rows)
        logits = Reading(tiny_model(), state, rows).read([[7, n] for n in range(rows)])
        for n in range(rows):
            with torch.inference_mode():
                plain = tiny_model()(input_ids=torch.tensor([[*prefix, 7, n]])).logits
            np.testing.assert_allclose(logits[n, -1], plain[0, -1], atol=1e-9)
