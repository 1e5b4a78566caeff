"""Where a model looks as it is about to answer: the share of its attention that falls on each passage of the prompt.

A caution: attention says which tokens' states were mixed in, not what the answer rests on (Jain & Wallace 2019, arXiv
1902.10186). The first tokens of a prompt draw much of it whatever they say (Xiao et al. 2023, arXiv 2309.17453).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rag_lab.llm.chat_template import chat_tokens, common_length
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Prompt, Turn

TokenRange = tuple[int, int]


def pool_attention(weights: np.ndarray, spans: Sequence[TokenRange]) -> np.ndarray:
    """The mean of ``weights`` (layers, heads, tokens) over layers and heads, added up over each span's tokens.

    A head's weights sum to 1, so each value of the result (spans,) is a share of the attention, 0 to 1. ValueError
    for another shape, or for a span, ``(start, end)`` with ``end`` outside, that is empty or passes the last token.
    """
    if weights.ndim != 3:
        raise ValueError(f"weights have the shape {weights.shape}; (layers, heads, tokens) is needed.")
    if wrong := [(start, end) for start, end in spans if not 0 <= start < end <= weights.shape[2]]:
        raise ValueError(f"the span {wrong[0]} is empty or not within the {weights.shape[2]} tokens.")
    mean = weights.mean(axis=(0, 1))
    return np.array([mean[start:end].sum() for start, end in spans])


def answer_attention(llm: LocalLLM, prompt: Prompt, passages: Sequence[str]) -> np.ndarray:
    """The share of attention on each of ``passages`` from the prompt's last token, which gives the answer's first.

    Returns (passages,), each 0 to 1; what is missing to 1 falls on the question, the instructions and the control
    tokens. The passages stand in the user's last turn in this order. With a last turn by the assistant it is the next
    token of that beginning that is looked at. Attention is computed in full ("eager"), which other implementations
    do not return; the model has its own again afterwards. ValueError for a passage that is not there.
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
    """Attention of the last of ``ids`` to all of them, (layers, heads, tokens), of a model with eager attention.

    The others are read first and only the last is asked for its weights: all of them are tokens squared in memory.
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


def passage_spans(tokenizer: Any, prompt: Prompt, passages: Sequence[str]) -> list[TokenRange]:
    """Where each passage stands in the prompt's token ids: ``(start, end)``, ``end`` outside.

    A token that holds a passage's last character and more is left out of it, and one that holds its first is in.
    """
    user = max(i for i, turn in enumerate(prompt.turns) if turn.role == "user")
    text = prompt.turns[user].text
    ids = chat_tokens(tokenizer, prompt).ids

    def tokens_before(end: int) -> int:
        """What the ids have in common with those of the same prompt cut off at a character."""
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
