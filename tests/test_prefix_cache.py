from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, MistralConfig, MptConfig

from rag_lab import prefix_cache
from rag_lab.decoding import Reading
from rag_lab.prefix_cache import PrefixCache, token_bytes
from tests.local_model import tiny_model


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
        # Every head is a key head: 3 layers x 32 dimensions x 2 x 4 bytes.
        (GPT2Config(n_layer=3, n_head=4, n_embd=32), 768),
        (MptConfig(n_layers=3, n_heads=4, d_model=32), 768),
        # 2 of 4 heads, of 10 dimensions, which 32 / 4 is not: 3 x 2 x 10 x 2 x 4 bytes.
        (
            MistralConfig(
                num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, hidden_size=32, head_dim=10
            ),
            480,
        ),
    ],
)
def test_what_a_token_takes_in_other_models(config: Any, expected: int) -> None:
    assert token_bytes(SimpleNamespace(config=config, dtype=torch.float32)) == expected


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
