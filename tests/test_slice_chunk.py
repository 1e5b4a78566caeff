"""rag_lab.selection: pieces of a chunk are chunks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.chunking import slice_chunk
from rag_lab.types import Chunk, Document

TEXT = "Intro. One two.  \n Three.\n\nFour. "
DOCUMENT = Document("d", "xx" + TEXT)
CHUNK = Chunk("d", 4, TEXT, 2, 2 + len(TEXT), title="T", section_path=("A",), metadata={"date": "2024"}, context="c")


def test_pieces_keep_place_and_origin() -> None:
    one, four = slice_chunk(CHUNK, [(25, 33), (6, 15)])
    assert (one.text, one.start, one.end) == ("One two.", 9, 17)
    assert (four.text, four.start, four.end) == ("Four.", 29, 34)
    assert (one.id, one.title, one.section_path, one.metadata, one.context) == (
        "d#4",
        "T",
        ("A",),
        {"date": "2024"},
        "c",
    )


def test_neighbours_with_only_white_space_between_are_one_piece() -> None:
    assert [piece.text for piece in slice_chunk(CHUNK, [(7, 15), (19, 25)])] == ["One two.  \n Three."]
    assert [piece.text for piece in slice_chunk(CHUNK, [(0, 10), (7, 15)])] == ["Intro. One two."]


def test_blank_ranges_give_nothing() -> None:
    assert slice_chunk(CHUNK, [(15, 19), (0, 0)]) == []
    assert slice_chunk(CHUNK, []) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))))
def test_a_piece_is_the_text_at_its_offsets(spans: list[tuple[int, int]]) -> None:
    spans = [(min(span), max(span)) for span in spans]
    found = slice_chunk(CHUNK, spans)
    asked = {i + CHUNK.start for start, end in spans for i in range(start, end) if not TEXT[i].isspace()}
    assert asked <= {i for piece in found for i in range(piece.start, piece.end)}
    for piece in found:
        assert piece.text == DOCUMENT.text[piece.start : piece.end] == piece.text.strip() != ""
        assert {i for i in range(piece.start, piece.end) if not DOCUMENT.text[i].isspace()} <= asked
