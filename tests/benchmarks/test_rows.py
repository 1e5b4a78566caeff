"""The arithmetic of make bench. No timing is asserted."""

from types import SimpleNamespace

import pytest

from tests.benchmarks.rows import growth, row, transformer_flops


def test_a_row_is_a_ratio_above_one_where_ours_is_quicker() -> None:
    found = row("w", "10 texts", 0.5, "peer", 2.0, 0.1)
    assert (found["ratio"], found["floor_seconds"]) == (4.0, 0.1)
    assert row("w", "1", 1.0, "peer", 1.0, same_answers=3)["same_answers"] == 3
    assert found.keys() == {"work", "size", "ours_seconds", "peer", "peer_seconds", "ratio", "floor_seconds"}


def test_growth_is_from_the_smallest_size_to_the_largest() -> None:
    rows = [row("w", "1", 1.0, "peer", 2.0), row("w", "10", 10.0, "peer", 40.0), row("v", "1", 1.0, "peer", 1.0)]
    assert growth(rows) == ["w, 1 to 10: x 10.0 here, x 20.0 with peer"]


def test_flops_of_minilm_by_hand() -> None:
    """A layer has 4 · 384² for attention and 2 · 384 · 1536 for the feed-forward part: 1,769,472 weights.

    Six layers over 10 tokens: 2 · 6 · 1,769,472 · 10 = 212,336,640, and attention 6 · 4 · 384 · 100 = 921,600.
    """
    config = SimpleNamespace(
        hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12, hidden_act="gelu"
    )
    assert transformer_flops(config, [10]) == 212_336_640 + 921_600
    assert transformer_flops(config, [10, 10]) == 2 * transformer_flops(config, [10])


def test_flops_of_a_llama_with_shared_heads_by_hand() -> None:
    """Keys and values have a third of the width: 2 · 9² + 2 · 9² / 3 = 216; gated feed-forward: 3 · 9 · 4 = 108."""
    config = SimpleNamespace(
        hidden_size=9,
        intermediate_size=4,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=1,
        hidden_act="silu",
    )
    assert transformer_flops(config, [1]) == pytest.approx(2 * (216 + 108) + 4 * 9)
