"""Batches, shared prefixes and answers against plain forward passes of a tiny random model in float64."""

import math
import weakref
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.llm import generation
from rag_lab.llm.generation import (
    DecodingBatch,
    Generation,
    generate_and_score,
    prefill,
    prefill_shared,
    sample_token,
    unstable_suffix,
)
from rag_lab.llm.kv_cache import PrefixCache, empty_cache
from rag_lab.text.thinking import split_thinking
from tests.support.local_model import smollm2, tiny_model

IDS = st.lists(st.integers(0, 49), min_size=1, max_size=12)
PROMPTS = [[1, 2, 3, 4, 5], [7], [1, 2, 9], [1, 2, 3, 4, 5], [1, 2, 3], [8, 2, 3, 4, 5, 6, 7, 8]]


def plain_logits(ids: list[int]) -> torch.Tensor:
    """One forward pass over the whole sequence, without a cache."""
    with torch.inference_mode():
        return tiny_model()(torch.tensor([ids])).logits[0]


class Letters:
    """A tokenizer whose text is the ids, a letter each."""

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(chr(ord("A") + i) for i in ids)


def generations(prompts: list[list[int]], max_tokens: int = 6, prefix_length: int = 0) -> list[Generation]:
    return [Generation(Letters(), ids, max_tokens, prefix_length=prefix_length) for ids in prompts]


@pytest.fixture
def forward_tokens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each forward pass was given."""
    counts: list[int] = []
    forward = DecodingBatch.forward

    def counting(self: DecodingBatch, token_ids: Any, *args: Any) -> Any:
        counts.append(sum(map(len, token_ids)))
        return forward(self, token_ids, *args)

    monkeypatch.setattr(DecodingBatch, "forward", counting)
    return counts


# batches


@settings(max_examples=25, deadline=None)
@given(
    first=st.lists(IDS, min_size=1, max_size=4), second=st.lists(IDS, min_size=4, max_size=4), keep=st.integers(1, 3)
)
def test_rows_of_a_batch_compute_what_each_computes_alone(first: list, second: list, keep: int) -> None:
    batch = DecodingBatch(tiny_model(), empty_cache(), [0] * len(first))
    both = [a + b for a, b in zip(first, second, strict=False)]
    for rows, so_far in ((first, first), (second[: len(first)], both)):
        for row, ids, sequence in zip(batch.forward(rows, keep), rows, so_far, strict=True):
            n = min(keep, len(ids))
            torch.testing.assert_close(row[-n:], plain_logits(sequence)[-n:])


def test_rows_can_be_dropped() -> None:
    batch = DecodingBatch(tiny_model(), empty_cache(), [0] * 3)
    batch.forward([[1, 2, 3], [4], [5, 6]])
    batch.select_rows([0, 2])
    logits = batch.forward([[7], [8]])
    torch.testing.assert_close(logits[0, -1], plain_logits([1, 2, 3, 7])[-1])
    torch.testing.assert_close(logits[1, -1], plain_logits([5, 6, 8])[-1])


# sampling and text


def test_the_most_likely_token_or_one_sampled_by_temperature() -> None:
    logits = torch.log(torch.tensor([0.2, 0.8]))
    assert sample_token(logits, 0.0, None) == 1
    # At temperature T the chance of the first is 0.2^(1/T) / (0.2^(1/T) + 0.8^(1/T)): 0.2, and at 0.5 0.04 / 0.68.
    for temperature, chance in ((1.0, 0.2), (0.5, 0.04 / 0.68)):
        generator = torch.Generator().manual_seed(1)
        n = 4000
        share = sum(sample_token(logits, temperature, generator) == 0 for _ in range(n)) / n
        assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize(
    ("text", "stop", "unstable"),
    [
        ("plain", (), 0),
        ("half a \ufffd\ufffd", (), 2),
        ("one ST", ("STOP",), 2),
        ("one STO", ("STOP", "xyz"), 3),
        ("a\n", ("\n\n",), 1),
        ("aba", ("abac",), 3),
        ("over", ("STOP",), 0),
    ],
)
def test_unstable_suffix(text: str, stop: tuple[str, ...], unstable: int) -> None:
    assert unstable_suffix(text, stop) == unstable


def generated(text: str, max_tokens: int = 1000, prefill: str = "", stop: tuple[str, ...] = ()) -> tuple[str, str]:
    """Text and stop reason if a model generates ``text`` and then its end; the deltas must join to the text."""
    tokenizer = smollm2().tokenizer
    ids = iter([*tokens(text), tokenizer.eos_token_id])
    row = Generation(
        tokenizer,
        tokens(prefill),
        max_tokens,
        {tokenizer.eos_token_id},
        prefill_length=len(tokens(prefill)),
        prefill=prefill,
        stop=stop,
    )
    deltas = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(generation, "sample_token", lambda *_: next(ids))
        while not row.stop_reason:
            row.step(None)
            deltas.append(row.text_delta())
    assert "".join(deltas) == row.text[row.answer_start() :]
    assert not any("\ufffd" in delta for delta in deltas)
    return row.text, row.stop_reason


@pytest.mark.parametrize(
    ("text", "stop", "answer"),
    [
        ("<think>\nOne.\nTwo.\n</think>\n\nParis.\nRome.", (), "Paris.\nRome."),
        ("<think>\nOne.\nTwo.\n</think>\n\nParis.\nRome.", ("\n",), "Paris."),  # no stop among the thoughts
        ("<think>One. It goes on", (), ""),
        ("<thinly sliced>", (), "<thinly sliced>"),
        ("<th", (), "<th"),
    ],
)
def test_thoughts_are_not_streamed(text: str, stop: tuple[str, ...], answer: str) -> None:
    written, _ = generated(text, stop=stop)
    assert split_thinking(written)[1] == answer


def tokens(text: str) -> list[int]:
    return smollm2().tokenizer(text, add_special_tokens=False).input_ids


# SmolLM2's vocabulary lacks the bytes of some control characters and of planes 4 to 11, which hold no characters.
@settings(max_examples=25, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cc", "Cn", "Co", "Cs"], exclude_characters="\ufffd"), max_size=30)
)
def test_deltas_are_whole_characters(text: str) -> None:
    assert generated(text) == (text, "end_turn")


def test_an_emoji_of_many_tokens_comes_in_whole_characters() -> None:
    assert len(tokens("👩🏽‍🚀")) > 4
    text = "שלום 👩🏽‍🚀 سلام 你好"
    assert generated(text) == (text, "end_turn")


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        # Four tokens: "ab", a space with two of the four bytes of 👩, then a byte each.
        ("ab 👩", {"max_tokens": 3}, ("ab ", "max_tokens")),
        ("One. Two STOP three", {"stop": ("never", " STOP")}, ("One. Two", "stop_sequence")),
        ("A STO and no more ST", {"stop": ("STOP",)}, ("A STO and no more ST", "end_turn")),
        # The prefill is not searched for stop texts.
        (" about Berlin. More", {"prefill": "This. is", "stop": (".",)}, ("This. is about Berlin", "stop_sequence")),
    ],
)
def test_where_an_answer_ends(text: str, options: dict[str, Any], expected: tuple[str, str]) -> None:
    assert generated(text, **options) == expected


# prefix cache


def cached(cache: PrefixCache, ids: list[int]) -> int:
    """How many of the ids were in the cache."""
    return cache.get(ids, partial(prefill, tiny_model()))[1]


def test_only_what_differs_is_prefilled(forward_tokens: list[int]) -> None:
    cache = PrefixCache(max_tokens=100)
    assert cached(cache, [1, 2, 3, 4]) == 0
    assert cached(cache, [1, 2, 3, 4]) == 4  # the same again: nothing
    assert cached(cache, [1, 2]) == 2  # a prefix of it: nothing
    assert cached(cache, [1, 2, 9, 9, 9]) == 2  # it branches off after two
    assert cached(cache, [1, 2, 3, 4, 5]) == 4  # the longer of two that fit
    assert forward_tokens == [4, 3, 1]


def test_the_least_recently_used_prefixes_go_first() -> None:
    cache = PrefixCache(max_tokens=8)
    for ids in ([1] * 4, [2] * 4, [1] * 4, [3] * 4):  # the third makes the ones newer than the twos
        cached(cache, ids)
    assert cached(cache, [1] * 4) == 4
    assert cached(cache, [2] * 4) == 0
    assert cached(cache, [5] * 20) == 0  # more than max_tokens: kept alone
    assert cached(cache, [5] * 20) == 20
    assert cached(cache, [1] * 4) == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=6), st.integers(1, 3))
def test_a_cached_prefix_goes_on_as_if_all_had_been_prefilled(prefixes: list[list[int]], rows: int) -> None:
    cache = PrefixCache(max_tokens=20)
    for prefix in prefixes:
        ends = generations([[*prefix, 7, n] for n in range(rows)], prefix_length=len(prefix))
        for numbers, _, logits in prefill_shared(tiny_model(), ends, 0, 8, 1000, cache):
            for i, last in zip(numbers, logits, strict=True):
                torch.testing.assert_close(last, plain_logits(ends[i].prompt_ids)[-1])


# shared prefixes


@pytest.mark.parametrize(("capacity", "chunk"), [(1, 512), (16, 512), (1000, 512), (1000, 2)])
def test_every_prompt_is_prefilled_to_its_own_end(capacity: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "PREFILL_CHUNK_TOKENS", chunk)
    seen = []
    for rows, _, logits in prefill_shared(tiny_model(), generations(PROMPTS), 3, 4, capacity, share_all=True):
        assert len(rows) == 1 or len(rows) * max(len(PROMPTS[i]) + 3 for i in rows) <= capacity
        assert len(rows) <= 4
        for i, last in zip(rows, logits, strict=True):
            torch.testing.assert_close(last, plain_logits(PROMPTS[i])[-1])
        seen += rows
    assert sorted(seen) == list(range(len(PROMPTS)))


@pytest.mark.parametrize("max_rows", [1, 3, 8])
def test_shared_prefixes_are_prefilled_once(max_rows: int, forward_tokens: list[int]) -> None:
    list(prefill_shared(tiny_model(), generations(PROMPTS), 0, max_rows, 1000, share_all=True))
    # The trie has 1 2 3 4 5, then 9 below 1 2, then 7, then eight ids from 8 on: 5 + 1 + 1 + 8. The last id of a
    # prompt is always computed, since its logits are needed: the second 1 2 3 4 5 computes its 5 again.
    assert sum(forward_tokens) == 5 + 1 + 1 + 8 + 1


@pytest.mark.parametrize("capacity", [1, 16, 1000])
def test_prompts_of_unlike_length_go_on_in_one_batch_and_roll_back(capacity: int) -> None:
    for rows, batch, _ in prefill_shared(tiny_model(), generations(PROMPTS), 3, 8, capacity, share_all=True):
        more = [[10 + i, 20] for i in rows]
        for i, logits, ids in zip(rows, batch.forward(more, 2), more, strict=True):
            torch.testing.assert_close(logits, plain_logits(PROMPTS[i] + ids)[-2:])
        kept = [n % 3 for n in range(len(rows))]  # of the two ids that each row has just appended
        batch.rollback([2 - n for n in kept])
        again = batch.forward([[30] for _ in rows])
        for i, n, ids, logits in zip(rows, kept, more, again, strict=True):
            torch.testing.assert_close(logits[-1], plain_logits([*PROMPTS[i], *ids[:n], 30])[-1])


# answers


def greedy(ids: list[int], count: int) -> list[int]:
    for _ in range(count):
        ids = [*ids, int(plain_logits(ids)[-1].argmax())]
    return ids[-count:]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=5),
    st.sampled_from([1, 8]),
)
def test_answers_and_likelihoods_whatever_was_expected(cases: list[tuple[int, int, int]], max_rows: int) -> None:
    """Expected: some ids of the greedy answer, then others, or nothing; the answer is the greedy one anyway."""
    prompts = [PROMPTS[i] for i, _, _ in cases]
    answers = [greedy(prompt, 6) for prompt in prompts]
    expected = [[*answer[:same], *([3] * more)] for answer, (_, same, more) in zip(answers, cases, strict=True)]
    rows = generations(prompts)
    for numbers, scores in generate_and_score(tiny_model(), rows, expected, max_rows=max_rows, capacity=1000):
        for i, score in zip(numbers, scores, strict=True):
            assert rows[i].output_ids == answers[i]
            log_probabilities = plain_logits(prompts[i] + expected[i]).log_softmax(-1)
            start = len(prompts[i]) - 1
            by_hand = sum(log_probabilities[start + n, token].item() for n, token in enumerate(expected[i]))
            assert score == pytest.approx(by_hand, abs=1e-4)


def test_the_memory_of_a_batch_is_freed_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref] = []
    make = generation.empty_cache

    def empty() -> Any:
        assert all(cache() is None for cache in made[1:])  # the first is the cache in which prompts are prefilled
        made.append(weakref.ref(kv_cache := make()))
        return kv_cache

    monkeypatch.setattr(generation, "empty_cache", empty)
    list(generate_and_score(tiny_model(), generations(PROMPTS), [[3]] * 6, max_rows=2, capacity=1000))
    assert len(made) == 1 + 3
