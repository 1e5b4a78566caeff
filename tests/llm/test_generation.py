import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.llm import generation
from rag_lab.llm.generation import Reading, Writing, batches, choose, unsettled
from rag_lab.llm.prefix_cache import empty_state
from tests.support.local_model import smollm2, tiny_model

IDS = st.lists(st.integers(0, 49), min_size=1, max_size=12)


def all_logits(ids: list[int]) -> torch.Tensor:
    """One plain pass over the whole text, without any cache."""
    with torch.inference_mode():
        return tiny_model()(input_ids=torch.tensor([ids])).logits[0]


@settings(max_examples=25, deadline=None)
@given(
    first=st.lists(IDS, min_size=1, max_size=4), second=st.lists(IDS, min_size=4, max_size=4), keep=st.integers(1, 3)
)
def test_rows_side_by_side_read_as_each_alone(first: list, second: list, keep: int) -> None:
    reading = Reading(tiny_model(), empty_state(), len(first))
    for rows, so_far in (
        (first, first),
        (second[: len(first)], [a + b for a, b in zip(first, second, strict=False)]),
    ):
        logits = reading.read(rows, keep)
        for row, read, alone in zip(logits, rows, so_far, strict=True):
            n = min(keep, len(read))
            np.testing.assert_allclose(row[-n:], all_logits(alone)[-n:], atol=1e-9)


def test_rows_that_are_done_can_be_dropped() -> None:
    reading = Reading(tiny_model(), empty_state(), 3)
    reading.read([[1, 2, 3], [4], [5, 6]])
    reading.keep_rows([0, 2])
    logits = reading.read([[7], [8]])
    np.testing.assert_allclose(logits[0, -1], all_logits([1, 2, 3, 7])[-1], atol=1e-9)
    np.testing.assert_allclose(logits[1, -1], all_logits([5, 6, 8])[-1], atol=1e-9)


def test_choose_takes_the_likeliest_or_draws_by_temperature() -> None:
    logits = torch.log(torch.tensor([0.2, 0.8]))
    assert choose(logits, 0.0, None) == 1
    # At temperature T the chance of the first is 0.2^(1/T) / (0.2^(1/T) + 0.8^(1/T)): 0.2, and at 0.5 0.04 / 0.68.
    for temperature, chance in ((1.0, 0.2), (0.5, 0.04 / 0.68)):
        generator = torch.Generator().manual_seed(1)
        n = 4000
        share = sum(choose(logits, temperature, generator) == 0 for _ in range(n)) / n
        assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize(
    ("text", "stop", "held"),
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
def test_unsettled(text: str, stop: tuple[str, ...], held: int) -> None:
    assert unsettled(text, stop) == held


def write(text: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[Writing, list[str]]:
    """What Writing makes of a model that writes ``text`` token by token, then its end."""
    tokenizer = smollm2().tokenizer
    ids = iter([*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id])
    monkeypatch.setattr(generation, "choose", lambda *_: next(ids))
    settings = {"max_tokens": 1000, "beginning": "", "stop": ()} | options
    lead = tokenizer(settings["beginning"], add_special_tokens=False).input_ids
    row = Writing(
        tokenizer,
        {tokenizer.eos_token_id},
        [],
        lead,
        temperature=0.0,
        generator=None,
        **settings,  # type: ignore[arg-type]
    )
    pieces = []
    while not row.reason:
        row.step(None)
        pieces.append(row.piece())
    return row, pieces


def tokens(text: str) -> Iterable[int]:
    return smollm2().tokenizer(text, add_special_tokens=False).input_ids


@settings(max_examples=25, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cc", "Cn", "Co", "Cs"], exclude_characters="\ufffd"), max_size=30)
)
def test_pieces_are_whole_characters_and_join_to_the_text(text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        row, pieces = write(text, monkeypatch)
    # SmolLM2's vocabulary lacks the bytes of some control characters and of planes 4 to 11, which hold no characters.
    assert "".join(pieces) == row.text == text
    assert row.reason == "end_turn"
    assert not any("\ufffd" in piece for piece in pieces)


def test_an_emoji_of_many_tokens_comes_in_whole_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "שלום 👩🏽‍🚀 سلام 你好"
    row, pieces = write(text, monkeypatch)
    assert len(list(tokens("👩🏽‍🚀"))) > 4
    assert "".join(pieces) == row.text == text


def test_an_answer_cut_inside_a_character_drops_its_half(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = list(tokens("ab 👩"))
    assert len(ids) == 4  # "ab", a space with two of the four bytes of 👩, then a byte each
    row, pieces = write("ab 👩", monkeypatch, max_tokens=3)
    assert (row.text, row.reason) == ("ab ", "max_tokens")
    assert "".join(pieces) == "ab "


def test_stop_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    row, pieces = write("One. Two STOP three", monkeypatch, stop=("never", " STOP"))
    assert (row.text, row.reason) == ("One. Two", "stop_sequence")
    assert "".join(pieces) == "One. Two"
    row, pieces = write("A STO and no more ST", monkeypatch, stop=("STOP",))
    assert (row.text, row.reason) == ("A STO and no more ST", "end_turn")
    assert "".join(pieces) == row.text


def test_the_beginning_is_part_of_the_text_but_not_searched_for_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    row, pieces = write(" about Berlin. More", monkeypatch, beginning="This. is", stop=(".",))
    assert (row.text, row.reason) == ("This. is about Berlin", "stop_sequence")
    assert "".join(pieces) == row.text


def test_batches_hold_like_prefixes_within_the_room() -> None:
    a, b = [1, 2], [1, 3]
    rows = [(a, [0] * 5), (b, [0] * 2), (a, [0] * 9), (a, [0] * 3), (a, [0] * 4)]
    # By prefix, longest first. Of `a` the longest row has 2 + 9 ids, so 24 ids have room for two such rows.
    assert list(batches(rows, room=24, batch_size=8)) == [(a, [2, 0]), (a, [4, 3]), (b, [1])]
    assert list(batches(rows, room=1000, batch_size=3)) == [(a, [2, 0, 4]), (a, [3]), (b, [1])]
    assert list(batches(rows[:1], room=5, batch_size=3)) == [(a, [0])]
    # With 8 ids to follow each, only the rows of 2 + 4 + 8 and 2 + 3 + 8 ids fit in side by side.
    assert list(batches(rows, room=28, batch_size=8, more=8)) == [(a, [2]), (a, [0]), (a, [4, 3]), (b, [1])]
