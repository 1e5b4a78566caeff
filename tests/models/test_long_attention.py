"""Attention in blocks, and with shared key heads folded, against torch's own on the same tensors."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from rag_lab.models import long_attention
from rag_lab.models.long_attention import NAME, attend_in_blocks, use_block_attention
from tests.models.test_cpu_kernels import NEEDS_X86
from tests.support.local_model import smollm2, tiny_model

pytestmark = NEEDS_X86


def module(group: int) -> Any:
    return SimpleNamespace(num_key_value_groups=group, is_causal=True, training=False)


@given(
    texts=st.integers(1, 3),
    key_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    tokens=st.integers(1, 30),
    before=st.integers(0, 20),
    padding=st.integers(0, 5),
    rows=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_the_same_as_torchs_own(
    texts: int, key_heads: int, group: int, tokens: int, before: int, padding: int, rows: int
) -> None:
    """A causal mask, ``before`` tokens read earlier, and the first text filled up at its beginning."""
    keys = before + tokens
    torch.manual_seed(texts + tokens)
    query = torch.randn(texts, key_heads * group, tokens, 8)
    key, value = torch.randn(texts, key_heads, keys, 8), torch.randn(texts, key_heads, keys, 8)
    mask = torch.ones(texts, 1, tokens, keys, dtype=torch.bool).tril(before)
    mask[0, :, :, : min(padding, before)] = False  # a query of its own sees at least itself
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(long_attention, "MIN_KEYS", 1)
        patch.setattr(long_attention, "ROWS", rows)
        got, _ = attend_in_blocks(module(group), query, key, value, mask)
        expected, _ = sdpa_attention_forward(module(group), query, key, value, mask)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        if not before and not padding:
            without_mask, _ = attend_in_blocks(module(group), query, key, value, None)
            torch.testing.assert_close(without_mask, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [3, 100])
def test_bfloat16_is_as_near_to_float32_as_torchs_own(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks, and folded where 10 tokens of 3 heads are no more than the rows of a block."""
    monkeypatch.setattr(long_attention, "MIN_KEYS", 1)
    monkeypatch.setattr(long_attention, "ROWS", rows)
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, n, 8).bfloat16() for heads, n in ((3, 10), (1, 30), (1, 30)))
    mask = torch.ones(1, 1, 10, 30, dtype=torch.bool).tril(20)
    with torch.inference_mode():
        got, _ = attend_in_blocks(module(3), query, key, value, mask)
        expected, _ = sdpa_attention_forward(module(3), query.float(), key.float(), value.float(), mask)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), expected, rtol=2**-7, atol=2**-7)


def test_a_hand_worked_mean() -> None:
    """Keys of zeros weigh alike, so each token's result is the mean of the values up to it: 1, 1.5, 2."""
    value = torch.tensor([1.0, 2.0, 3.0]).reshape(1, 1, 3, 1)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(long_attention, "MIN_KEYS", 1)
        patch.setattr(long_attention, "ROWS", 2)
        got, _ = attend_in_blocks(module(1), torch.ones(1, 1, 3, 1), torch.zeros(1, 1, 3, 1), value, None)
    assert got.flatten().tolist() == pytest.approx([1.0, 1.5, 2.0])


def test_gradients_flow_through_torchs_own() -> None:
    query = torch.randn(1, 1, 4, 2, requires_grad=True)
    got, _ = attend_in_blocks(module(1), query, torch.randn(1, 1, 4, 2), torch.randn(1, 1, 4, 2), None)
    got.sum().backward()
    assert query.grad is not None


def test_the_bundled_model_has_it_and_one_that_is_not_packed_keeps_its_own() -> None:
    assert smollm2().model.config._attn_implementation == NAME
    plain = tiny_model()
    assert use_block_attention(plain).config._attn_implementation == "sdpa"
