"""Attention pooled over passages: by hand, and against a full reading of a tiny model."""

import numpy as np
import pytest

from rag_lab.llm.chat_template import chat_tokens
from rag_lab.llm.prompt import Block, Prompt, Turn
from rag_lab.positions.attention import answer_attention, last_token_weights, passage_spans, pool_attention
from rag_lab.positions.key_value import KeyValueTask
from tests.support.local_model import smollm2, tiny_model

# Two layers of two heads over four tokens. Mean over the four heads, token by token:
# (0.4 + 0.0 + 1.0 + 0.2) / 4 = 0.4; (0.2 + 0.4 + 0 + 0.2) / 4 = 0.2; (0.2 + 0.4 + 0 + 0.2) / 4 = 0.2; the same 0.2.
WEIGHTS = np.array([[[0.4, 0.2, 0.2, 0.2], [0.0, 0.4, 0.4, 0.2]], [[1.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.4]]])


def test_mean_over_heads_and_layers_and_sum_over_tokens() -> None:
    assert pool_attention(WEIGHTS, [(0, 1), (1, 3), (3, 4)]) == pytest.approx([0.4, 0.4, 0.2])
    assert pool_attention(WEIGHTS, [(0, 4)]) == pytest.approx([1.0])
    assert pool_attention(WEIGHTS, []).shape == (0,)


@pytest.mark.parametrize("span", [(1, 1), (3, 2), (-1, 2), (2, 5)])
def test_wrong_spans(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="empty or not within the 4 tokens"):
        pool_attention(WEIGHTS, [span])


def test_weights_need_three_dimensions() -> None:
    with pytest.raises(ValueError, match=r"\(layers, heads, tokens\)"):
        pool_attention(WEIGHTS[0], [(0, 1)])


@pytest.mark.parametrize("ids", [[7], [3, 1, 4, 1, 5, 9, 2, 6]], ids=["one token", "eight"])
def test_last_token_is_the_last_row_of_a_full_reading(ids: list[int]) -> None:
    import torch

    model = tiny_model()
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        full = model(torch.tensor([ids]), output_attentions=True).attentions
        weights = last_token_weights(model, ids)
    finally:
        model.set_attn_implementation(before)
    assert weights.shape == (2, 2, len(ids))
    assert np.allclose(weights, [layer[0, :, -1].detach().numpy() for layer in full])
    assert np.allclose(weights.sum(axis=-1), 1)


def test_spans_are_the_passages_tokens() -> None:
    tokenizer = smollm2().tokenizer
    passages = ["Kyoto: 1902. ", "Łódź 🙂 א", "Kyoto: 1902. "]
    for system in ((), (Block("Answer."),)):
        beginning = Turn("assistant", (Block("In"),))
        prompt = Prompt((Turn("user", (Block("".join(passages)), Block("\nWhen?"))), beginning), system)
        ids = chat_tokens(tokenizer, prompt).ids
        spans = passage_spans(tokenizer, prompt, [passage.strip() for passage in passages])
        assert [tokenizer.decode(ids[a:b]).strip() for a, b in spans] == [passage.strip() for passage in passages]


def test_a_passage_that_is_missing_or_comes_too_early() -> None:
    prompt = Prompt.of("one two")
    for passages in (["three"], ["two", "one"], [""]):
        with pytest.raises(ValueError, match="not in the prompt"):
            passage_spans(smollm2().tokenizer, prompt, passages)


def test_a_text_gets_what_its_passages_get_together() -> None:
    llm, task = smollm2(), KeyValueTask(5)
    before = llm.model.config._attn_implementation
    (item,) = task.items(1)
    lines = [f"The access code for the {place} office is {code}." for place, code in (*item.others, item.pair)]
    prompt = Prompt((*task.prompt(item, 4).turns, Turn("assistant", (Block("The access code"),))))
    shares = answer_attention(llm, prompt, lines)
    (first_two,) = answer_attention(llm, prompt, [f"{lines[0]}\n{lines[1]}"])
    assert shares.shape == (5,)
    assert 0 < shares.sum() < 1
    assert shares[:2].sum() < first_two < 2 * shares[:2].sum()  # the line break between them has a little of its own
    assert llm.model.config._attn_implementation == before
