"""The rows of ``make bench``: one piece of work at one size, with the times of a peer and a lower bound."""

import copy
import gc
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from rag_lab.models.cpu_kernels import pack_linear_layers

ROUNDS = 2
PEAK_SIZE, PEAK_ROUNDS = 2048, 5


def took(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The fewest CPU seconds of several runs. Other work on the machine affects CPU seconds least.

    They are fair only with one thread (OMP_NUM_THREADS=1), because waiting threads burn CPU.
    """
    seconds = []
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return min(seconds)


def row(
    work: str, size: str, ours: float, peer: str, peer_seconds: float, floor: float | None = None, **more: Any
) -> dict[str, Any]:
    """A row. ``ratio`` is the peer's seconds divided by ours. ``floor``: no code could be faster on this machine."""
    return {
        "work": work,
        "size": size,
        "ours_seconds": round(ours, 5),
        "peer": peer,
        "peer_seconds": round(peer_seconds, 5),
        "ratio": round(peer_seconds / ours, 2) if ours else None,
        "floor_seconds": None if floor is None else round(floor, 5),
    } | more


@cache
def peak_flops(dtype: str) -> float:
    """Floating-point operations per CPU second of this machine's fastest matrix product, for computing floors.

    The faster of torch's own linear layer and the packed one.
    """
    import torch

    layer = torch.nn.Linear(PEAK_SIZE, PEAK_SIZE, bias=False, dtype=getattr(torch, dtype))
    x = torch.randn(PEAK_SIZE, PEAK_SIZE).to(layer.weight.dtype)
    with torch.inference_mode():
        seconds = [took(lambda: layer(x), PEAK_ROUNDS)]
        pack_linear_layers(layer)
        seconds.append(took(lambda: layer(x), PEAK_ROUNDS))
    return 2 * PEAK_SIZE**3 / min(seconds)


def plain_transformers(model: Any) -> Any:
    """The same weights in a model of transformers' own, with its own linear layers: what a user would have."""
    plain = copy.deepcopy(model)
    for module in plain.modules():
        vars(module).pop("forward", None)
    return plain


def transformer_flops(config: Any, lengths: Sequence[int]) -> float:
    """Floating-point operations of the matrix products of one forward pass over texts of these ``lengths`` in tokens.

    2 per weight and token, and 4 · d · length² per layer for attention; the embedding table is only looked up.
    """
    d, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    heads = config.num_attention_heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    gated = 3 if getattr(config, "hidden_act", "") == "silu" else 2
    weights = layers * (2 * d * d + 2 * d * d * shared // heads + gated * d * inner)
    return float(sum(2 * weights * n + layers * 4 * d * n * n for n in lengths))


def growth(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How the time of each piece of work grows from its smallest to its largest size, ours and the peer's."""
    lines = []
    for work, peer in dict.fromkeys((r["work"], r["peer"]) for r in rows):
        same = [r for r in rows if (r["work"], r["peer"]) == (work, peer)]
        first, last = same[0], same[-1]
        if len(same) > 1 and first["ours_seconds"] and first["peer_seconds"]:
            ours = last["ours_seconds"] / first["ours_seconds"]
            theirs = last["peer_seconds"] / first["peer_seconds"]
            lines.append(f"{work}, {first['size']} to {last['size']}: x {ours:.1f} here, x {theirs:.1f} with {peer}")
    return lines
