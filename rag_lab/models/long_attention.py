"""Attention on a CPU that wastes less: in blocks over long texts, and without copies of shared key heads."""

import inspect
import sys
from typing import Any

from rag_lab.models.cpu_kernels import is_packed

NAME = "blocks"  # what the implementation is called among transformers' own
MIN_KEYS = 256  # with fewer, torch's own attention is as quick
ROWS = 192  # of a block of scores: with some thousands of keys it stays in a core's cache


def use_block_attention(model: Any) -> Any:
    """Give a model whose attention is torch's own (``sdpa``) that of ``attend_in_blocks``; returns the model.

    Nothing changes where linear layers are not packed either, see ``packed_linear``, and for a model whose code asks
    whether its attention is called ``sdpa``.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    asks_by_name = '"sdpa"' in inspect.getsource(sys.modules[type(model).__module__])  # Gemma 4, to change its masks
    if is_packed(model) and model.config._attn_implementation == "sdpa" and not asks_by_name:
        AttentionInterface.register(NAME, attend_in_blocks)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)
    return model


def attend_in_blocks(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """transformers' attention interface: query (texts, heads, tokens, d), key and value (texts, key heads, keys, d).

    Exact softmax attention, as torch's own but for the order of sums. Many queries over ``MIN_KEYS`` keys or more are
    taken in blocks, with oneDNN's products of float32, which are quicker than torch's own of either type (bfloat16 is
    converted); of a block's scores those are computed that some query of it may see. A few queries stand below each
    other for all heads that share a key head, which transformers copies for each. Elsewhere (gradients, dropout, a
    mask that is not one of booleans for all heads, and so on) it is transformers' own.
    """
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    tokens, keys = query.shape[2], key.shape[2]
    group = query.shape[1] // key.shape[1]  # query heads that share a key head
    mask = attention_mask
    if mask is None and tokens == keys and getattr(module, "is_causal", True) and options.get("is_causal") is None:
        mask = torch.ones(1, 1, tokens, keys, dtype=torch.bool, device=query.device).tril()
    plain = mask is not None and mask.dtype == torch.bool and mask.shape[1] == 1 and not torch.is_grad_enabled()
    if plain and not any(options.get(name) is not None for name in ("softcap", "position_bias")):
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        if tokens * group <= ROWS and group > 1:
            return _folded(query, key, value, mask, scale), None
        blocks = query.dtype in (torch.float32, torch.bfloat16) and query.device.type == "cpu"
        if blocks and tokens * group > ROWS and keys >= MIN_KEYS:
            mixed = _in_blocks(query.float(), key.float() * scale, value.float(), ~mask[:, 0])
            return mixed.to(query.dtype), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)


def _folded(query: Any, key: Any, value: Any, mask: Any, scale: float) -> Any:
    """(texts, tokens, heads, d); the query heads of one key head are rows of one product."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    texts, heads, tokens, d = query.shape
    group = heads // key.shape[1]
    rows = query.reshape(texts, -1, group * tokens, d)
    mask = mask.repeat(1, 1, group, 1)
    if query.dtype == torch.float32:  # torch's own takes a fifth more time for a few queries
        scores = (rows * scale) @ key.transpose(-1, -2)
        mixed = scores.masked_fill_(~mask, torch.finfo(scores.dtype).min).softmax(-1) @ value
    else:
        mixed = scaled_dot_product_attention(rows, key, value, attn_mask=mask, scale=scale)
    return mixed.reshape(texts, heads, tokens, -1).transpose(1, 2).contiguous()


def _in_blocks(query: Any, key: Any, value: Any, hidden: Any) -> Any:
    """(texts, tokens, heads, d); ``hidden`` (texts or 1, tokens, keys) is what a query may not see."""
    import torch

    texts, heads, tokens, d = query.shape
    group = heads // key.shape[1]
    size = max(1, ROWS // group)
    result = query.new_empty(texts, tokens, heads, value.shape[-1])
    for text, block in ((t, slice(start, start + size)) for t in range(texts) for start in range(0, tokens, size)):
        unseen = hidden[min(text, len(hidden) - 1), block]
        first, stop = _partly_hidden(unseen)
        for k in range(key.shape[1]):
            shared = slice(k * group, (k + 1) * group)
            rows = query[text, shared, block]
            scores = _product(rows.reshape(-1, d), key[text, k, :stop]).view(*rows.shape[:2], stop)
            scores[..., first:].masked_fill_(unseen[:, first:stop], torch.finfo(scores.dtype).min)
            mixed = _product(scores.softmax(-1).view(-1, stop), value[text, k, :stop].t())
            result[text, block, shared] = mixed.view(*rows.shape[:2], -1).transpose(0, 1)
    return result


def _partly_hidden(hidden: Any) -> tuple[int, int]:
    """The first key that some query may not see, and the one after the last that some query may see."""
    import torch

    some, seen = (x.view(torch.uint8).amax(0).nonzero() for x in (hidden, ~hidden))  # 10 times as quick as any()
    stop = int(seen[-1]) + 1 if len(seen) else hidden.shape[1]
    return (min(int(some[0]), stop) if len(some) else stop), stop


def _product(x: Any, weight: Any) -> Any:
    """``x`` (n, d) times ``weight`` (m, d): (n, m)."""
    import torch

    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
