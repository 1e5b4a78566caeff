"""Shared reading against plain passes of a tiny random model in float64."""

import pytest
import torch

from rag_lab import shared_reading
from rag_lab.prefix_cache import copy_state
from rag_lab.shared_reading import read_shared, side_by_side
from tests.local_model import tiny_model

TEXTS = [[1, 2, 3, 4, 5], [7], [1, 2, 9], [1, 2, 3, 4, 5], [1, 2, 3], [8, 2, 3, 4, 5, 6, 7, 8]]


def plain(ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return tiny_model()(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize(("room", "piece"), [(1, 512), (10, 512), (1000, 512), (1000, 2)])
def test_every_text_is_read_to_its_own_end(room: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_reading, "PIECE", piece)
    seen = []
    for rows, states, logits in read_shared(tiny_model(), TEXTS, room):
        assert len(rows) == 1 or len(rows) * max(len(TEXTS[i]) for i in rows) <= room
        for i, state, last in zip(rows, states, logits, strict=True):
            assert state.get_seq_length() == len(TEXTS[i])
            torch.testing.assert_close(last, plain(TEXTS[i])[-1])
        seen += rows
    assert sorted(seen) == list(range(len(TEXTS)))


def test_what_texts_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counting(shared_reading.Reading):
        def read(self, rows, keep=1):  # type: ignore[no-untyped-def]
            read.append(sum(map(len, rows)))
            return super().read(rows, keep)

    monkeypatch.setattr(shared_reading, "Reading", Counting)
    list(read_shared(tiny_model(), TEXTS, 1000))
    # The trie has 1 2 3 4 5, then 9 below 1 2, then 7, then eight ids below 8: 5 + 1 + 1 + 8. The last id of a text is
    # always read, since its logits are needed: 1 2 3 comes before 1 2 3 4 5, whose second reading reads the 5 again.
    assert sum(read) == 5 + 1 + 1 + 8 + 1


def test_texts_of_unlike_length_go_on_side_by_side() -> None:
    (batch,) = read_shared(tiny_model(), TEXTS, 1000)
    rows, states, _ = batch
    reading = side_by_side(tiny_model(), states)
    more = [[10 + i, 20] for i in rows]
    logits = reading.read(more, keep=2)
    for i, row, ids in zip(rows, logits, more, strict=True):
        torch.testing.assert_close(row, plain(TEXTS[i] + ids)[-2:])
    reading.forget(2)
    again = reading.read([[30] for _ in rows])
    for i, row in zip(rows, again, strict=True):
        torch.testing.assert_close(row[-1], plain([*TEXTS[i], 30])[-1])


def test_states_are_apart() -> None:
    (batch,) = read_shared(tiny_model(), TEXTS[:3], 1000)
    before = [copy_state(state, state.get_seq_length()) for state in batch[1]]
    reading = side_by_side(tiny_model(), batch[1])
    reading.read([[11], [12], [13]])
    for old, state in zip(before, batch[1], strict=True):
        torch.testing.assert_close(old.layers[0].keys, state.layers[0].keys)
