"""The share of a model's attention on each passage of the prompt, just before it answers.

A caution: attention says which tokens' states were mixed in, not what the answer is based on (Jain & Wallace 2019,
arXiv 1902.10186). The first tokens of a prompt get much of it whatever they say (Xiao et al. 2023, arXiv 2309.17453).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rag_lab.llm.chat_template import chat_tokens, common_length
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Prompt, Turn


def pool_attention(weights: np.ndarray, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """The mean of ``weights`` (layers, heads, tokens) over layers and heads, summed over each span: (spans,).

    The weights of a head sum to 1, so each value is a share of the attention, 0 to 1. A span is ``(start, end)``
    with ``end`` excluded. Raises ValueError for another shape, or if a span is empty or passes the last token.
    """
    if weights.ndim != 3:
        raise ValueError(f"weights have the shape {weights.shape}; (layers, heads, tokens) is needed.")
    if wrong := [(start, end) for start, end in spans if not 0 <= start < end <= weights.shape[2]]:
        raise ValueError(f"the span {wrong[0]} is empty or not within the {weights.shape[2]} tokens.")
    mean = weights.mean(axis=(0, 1))
    return np.array([mean[start:end].sum() for start, end in spans])


def answer_attention(llm: LocalLLM, prompt: Prompt, passages: Sequence[str]) -> np.ndarray:
    """The share of attention on each of ``passages`` from the prompt's last token, which predicts the next one.

    Returns (passages,), each 0 to 1; the rest of the attention is on the question, the instructions and the control
    tokens. The passages are in the user's last turn, in this order. If the prompt has a prefill, the last token is
    the prefill's. The attention implementation is switched to "eager" (the only one that returns weights) and back.
    Raises ValueError if a passage is not there.
    """
    ids = chat_tokens(llm.tokenizer, prompt).ids
    spans = passage_spans(llm.tokenizer, prompt, passages)
    before = llm.model.config._attn_implementation
    llm.model.set_attn_implementation("eager")
    try:
        weights = last_token_weights(llm.model, ids)
    finally:
        llm.model.set_attn_implementation(before)
    return pool_attention(weights, spans)


def last_token_weights(model: Any, ids: Sequence[int]) -> np.ndarray:
    """Attention from the last of ``ids`` to all of them, (layers, heads, tokens); the model's attention is "eager".

    The other ids are prefilled first, without weights, which would take memory of tokens squared.
    """
    import torch
    from transformers import DynamicCache

    tokens = torch.tensor([list(ids)], device=model.device)
    cache = DynamicCache()
    with torch.inference_mode():
        if len(ids) > 1:
            model(tokens[:, :-1], cache=cache, logits_to_keep=1)
        layers = model(tokens[:, -1:], cache=cache, output_attentions=True).attentions
    return torch.stack([layer[0, :, -1] for layer in layers]).double().cpu().numpy()


def passage_spans(tokenizer: Any, prompt: Prompt, passages: Sequence[str]) -> list[tuple[int, int]]:
    """The range of each passage in the prompt's token ids: ``(start, end)``, ``end`` excluded.

    A token that reaches past a passage's last character is left out; one that contains its first character is in.
    """
    user = max(i for i, turn in enumerate(prompt.turns) if turn.role == "user")
    text = prompt.turns[user].text
    ids = chat_tokens(tokenizer, prompt).ids

    def tokens_before(end: int) -> int:
        """The length of the common prefix with the ids of the same prompt, cut off at a character."""
        cut = replace(prompt, turns=(*prompt.turns[:user], Turn("user", (Block(text[:end]),))))
        return common_length(ids, chat_tokens(tokenizer, cut).ids)

    spans, place = [], 0
    for passage in passages:
        start = text.find(passage, place)
        if start < 0 or not passage:
            raise ValueError(f"the passage {passage[:40]!r} is not in the prompt, or not in this order.")
        place = start + len(passage)
        spans.append((tokens_before(start), tokens_before(place)))
    return spans
