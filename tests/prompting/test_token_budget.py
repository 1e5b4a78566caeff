"""Token budgets, worked out by hand with a counter of words or characters."""

from collections.abc import Sequence
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.prompting.templates import assign_sources, load_template, render_sources
from rag_lab.prompting.token_budget import context_budget, fit_to_budget, select
from rag_lab.types import Chunk, Document

TEXT = "aaaa bbbb cccc dddd eeee ffff"
DOCUMENT = Document("d", TEXT)


def part(start: int, end: int, index: int = 0) -> Chunk:
    return Chunk("d", index, TEXT[start:end], start, end)


def other(text: str, name: str) -> Chunk:
    return Chunk(name, 0, text, 0, len(text))


def joined(chunks: Sequence[Chunk]) -> str:
    """A rendering with two signs between passages, so that the costs of parts do not add up."""
    return "##".join(chunk.text for chunk in chunks)


def texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_tokens_left_of_a_window() -> None:
    assert context_budget(window=8192, system=200, history=900, question=30, max_output=512, template=50) == 6500
    assert context_budget(100, 20, 30, 10, 39) == 1
    with pytest.raises(
        ValueError, match=r"100 tokens leaves none .*system 20, history 30, question 10, max_output 40"
    ):
        context_budget(100, 20, 30, 10, 40)
    with pytest.raises(ValueError, match="history is -1"):
        context_budget(100, 20, -1, 10, 40)


def test_a_passage_that_does_not_fit_stops_nothing() -> None:
    chunks = [other("xxxxx", "a"), other("y" * 50, "b"), other("zz", "c"), other("w" * 9, "e"), other("v", "f")]
    before = list(chunks)
    # 5, then 5 + 2 + 50 is too much, 5 + 2 + 2 = 9, 9 + 2 + 9 = 20 is too much, 9 + 2 + 1 = 12 is the budget.
    selection = select(chunks, 12, joined, len)
    assert texts(selection.chunks) == ["xxxxx", "zz", "v"]
    assert [(drop.chunk.doc_id, drop.step, drop.reason) for drop in selection.dropped] == [
        ("b", "budget", "with it 57 tokens, of 12"),
        ("e", "budget", "with it 20 tokens, of 12"),
    ]
    assert (selection.tokens_before, selection.tokens_after) == (75, 12)
    assert chunks == before


def test_an_overlap_is_paid_once() -> None:
    # "aaaa bbbb cccc" and "cccc dddd" are 14 and 9 signs; merged they are 19, not 14 + 2 + 9.
    chunks = [part(0, 14), part(10, 19, 1)]
    assert texts(select(chunks, 19, joined, len).chunks) == ["aaaa bbbb cccc dddd"]
    assert texts(select(chunks, 18, joined, len).chunks) == ["aaaa bbbb cccc"]


def test_a_chunk_inside_a_passage_already_taken_is_free() -> None:
    chunks = [part(0, 14), other("x" * 100, "b"), part(5, 9, 1)]
    selection = select(chunks, 14, joined, len)
    assert texts(selection.chunks) == ["aaaa bbbb cccc"]
    assert [drop.chunk.doc_id for drop in selection.dropped] == ["b"]


def test_a_passage_has_the_rank_of_its_best_chunk() -> None:
    # Ranked: the end of d, another document, the beginning of d that touches the end once white space is known.
    chunks = [part(15, 29, 1), other("xx", "a"), part(0, 14)]
    assert texts(select(chunks, 99, joined, len, [DOCUMENT]).chunks) == [TEXT, "xx"]
    assert texts(select(chunks, 99, joined, len).chunks) == ["eeee ffff".join(["dddd ", ""]), "xx", "aaaa bbbb cccc"]


def test_a_budget_that_the_rest_exceeds_raises() -> None:
    assert select([], 0, joined, len).chunks == ()
    with pytest.raises(ValueError, match="The budget is 4 tokens, but 5 are used without any source"):
        select([other("x", "a")], 4, lambda chunks: "12345" + joined(chunks), len)


def test_all_that_fits_is_counted_once() -> None:
    count = Mock(side_effect=len)
    assert texts(select([other("xx", "a"), other("y", "b")], 5, joined, count).chunks) == ["xx", "y"]
    count.assert_called_once_with("xx##y")


def test_costs_are_those_of_the_layout() -> None:
    """Words of the default layout for one source without a title: the two tags around all, the three around it, x."""
    chunks = [other("x", "a"), other("y z", "b")]
    rendered = render_sources(assign_sources(chunks[:1]), load_template())
    assert rendered.split() == ["<sources>", "<source", 'id="S1">', "x", "</source>", "</sources>"]
    for budget, fitting in ((6, chunks[:1]), (11, chunks), (10, chunks[:1])):
        assert fit_to_budget(chunks, budget, lambda text: len(text.split())) == fitting


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 28), st.integers(1, 29)), max_size=8), st.integers(0, 40))
def test_the_budget_holds_and_no_chunk_is_lost(spans: list[tuple[int, int]], budget: int) -> None:
    chunks = [part(start, end, i) for i, (start, end) in enumerate(spans) if start < end]
    selection = select(chunks, budget, joined, len, [DOCUMENT])
    assert len(joined(selection.chunks)) == selection.tokens_after <= budget
    dropped = [drop.chunk.index for drop in selection.dropped]
    for chunk in chunks:
        held = any(kept.start <= chunk.start and chunk.end <= kept.end for kept in selection.chunks)
        assert held or chunk.index in dropped
    for kept in selection.chunks:
        assert kept.text == TEXT[kept.start : kept.end]
