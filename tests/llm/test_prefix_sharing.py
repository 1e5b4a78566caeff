"""Shared reading against plain passes of a tiny random model in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.llm import generation, prefix_sharing
from rag_lab.llm.generation import Reading, Writing
from rag_lab.llm.prefix_sharing import read_shared, write_and_rate
from tests.support.local_model import tiny_model

TEXTS = [[1, 2, 3, 4, 5], [7], [1, 2, 9], [1, 2, 3, 4, 5], [1, 2, 3], [8, 2, 3, 4, 5, 6, 7, 8]]


def plain(ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return tiny_model()(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize(("room", "piece"), [(1, 512), (16, 512), (1000, 512), (1000, 2)])
def test_every_text_is_read_to_its_own_end(room: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_sharing, "PIECE", piece)
    seen = []
    for rows, _, logits in read_shared(tiny_model(), TEXTS, 3, room):
        assert len(rows) == 1 or len(rows) * max(len(TEXTS[i]) + 3 for i in rows) <= room
        for i, last in zip(rows, logits, strict=True):
            torch.testing.assert_close(last, plain(TEXTS[i])[-1])
        seen += rows
    assert sorted(seen) == list(range(len(TEXTS)))


def test_what_texts_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counting(generation.Reading):
        def read(self, rows, keep=1):  # type: ignore[no-untyped-def]
            read.append(sum(map(len, rows)))
            return super().read(rows, keep)

    monkeypatch.setattr(prefix_sharing, "Reading", Counting)
    list(read_shared(tiny_model(), TEXTS, 0, 1000))
    # The trie has 1 2 3 4 5, then 9 below 1 2, then 7, then eight ids from 8 on: 5 + 1 + 1 + 8. The last id of a text
    # is always read, since its logits are needed: the second 1 2 3 4 5 reads its 5 again.
    assert sum(read) == 5 + 1 + 1 + 8 + 1


@pytest.mark.parametrize("room", [16, 1000])
def test_texts_of_unlike_length_go_on_side_by_side(room: int) -> None:
    for rows, reading, _ in read_shared(tiny_model(), TEXTS, 3, room):
        go_on(rows, reading)


def go_on(rows: list[int], reading: Reading) -> None:
    more = [[10 + i, 20] for i in rows]
    logits = reading.read(more, keep=2)
    for i, row, ids in zip(rows, logits, more, strict=True):
        torch.testing.assert_close(row, plain(TEXTS[i] + ids)[-2:])
    kept = [n % 3 for n in range(len(rows))]  # of the two ids that each row has just read
    reading.forget([2 - n for n in kept])
    again = reading.read([[30] for _ in rows])
    for i, n, ids, row in zip(rows, kept, more, again, strict=True):
        torch.testing.assert_close(row[-1], plain([*TEXTS[i], *ids[:n], 30])[-1])


class Ids:
    """A tokenizer whose text is the ids, a letter each."""

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(chr(ord("A") + i) for i in ids)


def greedy(ids: list[int], count: int) -> list[int]:
    for _ in range(count):
        ids = [*ids, int(plain(ids)[-1].argmax())]
    return ids[-count:]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 3)), min_size=1, max_size=5))
def test_answers_and_likelihoods_whatever_was_expected(cases: list[tuple[int, int, int]]) -> None:
    """Expected: so many ids of the greedy answer, then others; the answer is the greedy one all the same."""
    texts = [TEXTS[i] for i, _, _ in cases]
    answers = [greedy(text, 6) for text in texts]
    expected = [[*answer[:same], *([3] * more)] for answer, (_, same, more) in zip(answers, cases, strict=True)]
    (batch,) = read_shared(tiny_model(), texts, 9, 1000)
    rows, reading, logits = batch
    writing = [Writing(Ids(), set(), [], [], "", 6, 0.0, (), None) for _ in rows]
    totals = write_and_rate(reading, logits, writing, [expected[i] for i in rows])
    for i, row, total in zip(rows, writing, totals, strict=True):
        assert row.written == answers[i]
        chances = plain(texts[i] + expected[i]).log_softmax(-1)
        start = len(texts[i]) - 1
        by_hand = sum(chances[start + n, token].item() for n, token in enumerate(expected[i]))
        assert total == pytest.approx(by_hand, abs=1e-4)
