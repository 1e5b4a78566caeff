"""Claude's cited blocks in our report. The responses are hand-written in the shapes of the SDK's types."""

from typing import Any

import pytest
from anthropic.types.document_block_param import DocumentBlockParam
from pydantic import TypeAdapter

from rag_lab.answering.claude_documents import document_blocks, read_cited_blocks
from rag_lab.citations.quotes import QuoteCheck
from rag_lab.citations.validation import validate_citations
from tests.support.cited_sources import sources

GIVEN = sources("Dogs are allowed. 😀 Cats are not.", "כלבים מותרים במשרד. חתולים אסורים.")


def place(number: int, start: int, end: int, cited: str) -> dict[str, Any]:
    source = {"type": "char_location", "document_index": number, "document_title": None}
    return {**source, "cited_text": cited, "start_char_index": start, "end_char_index": end}


def text(said: str, *citations: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": said, "citations": list(citations) or None}


def test_documents_have_the_shape_that_the_sdk_sends() -> None:
    given = sources("Dogs.", title="Pets", uri="https://example.org", section_path=("Office", "Dogs"))
    (block,) = document_blocks(given)
    TypeAdapter(DocumentBlockParam).validate_python(block, strict=True)
    assert block == {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Dogs."},
        "title": "Pets",
        "context": "Office > Dogs\nhttps://example.org",
        "citations": {"enabled": True},
    }
    assert set(document_blocks(sources("Dogs.", title=""))[0]) == {"type", "source", "citations"}


def test_cited_blocks_become_markers_and_a_report() -> None:
    content = [
        text("Here is what I found: "),
        text("dogs may come", place(0, 0, 17, "Dogs are allowed."), place(1, 0, 19, "כלבים מותרים במשרד.")),
        text(".\n"),
        text("Cats may not.\n", place(0, 20, 33, "Cats are not.")),
        text("Birds may."),
    ]
    answer, report, quotes = read_cited_blocks(content, GIVEN)
    assert answer == ("Here is what I found: dogs may come [S1][S2].\nCats may not. [S1]\nBirds may.")
    assert [(quote.status, quote.span) for quote in quotes] == [
        ("found", span) for span in ((0, 17), (0, 19), (20, 33))
    ]
    assert [source.id for source in report.sources] == ["S1", "S2"]
    assert [answer[s.start : s.end] for s in report.uncited] == ["Birds may."]
    again = validate_citations(answer, GIVEN)
    assert (again.sentences, again.coverage) == (report.sentences, report.coverage)


def test_locations_are_checked_against_the_source() -> None:
    content = [
        text("a", place(0, 20, 33, "Cats are not.")),  # right: 18 characters, an emoji that counts one, a space
        text("b", place(0, 21, 34, "Cats are not.")),  # counted in UTF-16
        text("c", place(0, 0, 5, "Cats  are\nnot.")),  # other white space
        text("d", place(0, 0, 5, "Cats are welcome.")),
        text("e", place(7, 0, 5, "Birds are.")),
        text("f", place(-1, 0, 5, "Birds are.")),
    ]
    _, report, quotes = read_cited_blocks(content, GIVEN)
    assert quotes == [
        QuoteCheck("S1", "Cats are not.", "found", (20, 33)),
        QuoteCheck("S1", "Cats are not.", "found", (20, 33)),
        QuoteCheck("S1", "Cats  are\nnot.", "found", (20, 33)),
        QuoteCheck("S1", "Cats are welcome.", "not_found"),
        QuoteCheck("S8", "Birds are.", "no_such_source"),
        QuoteCheck("S0", "Birds are.", "no_such_source"),
    ]
    assert report.invalid_ids == ("S8", "S0")


def test_other_kinds_of_locations_are_checked_by_their_text() -> None:
    page = {"type": "page_location", "cited_text": "Cats are not.", "document_index": 0, "start_page_number": 1}
    block = {"type": "content_block_location", "cited_text": "Birds are.", "document_index": 0}
    search = {"type": "search_result_location", "cited_text": "Dogs are allowed.", "search_result_index": 0}
    *_, quotes = read_cited_blocks([text("a", page), text("b", block), text("c", search)], GIVEN)
    assert [(q.status, q.span) for q in quotes] == [("found", (20, 33)), ("not_found", None), ("found", (0, 17))]


def test_a_citation_of_the_web_raises() -> None:
    web = {"type": "web_search_result_location", "cited_text": "x", "url": "https://example.org"}
    with pytest.raises(ValueError, match="'web_search_result_location' names no document"):
        read_cited_blocks([text("a", web)], GIVEN)


def test_blocks_that_are_not_text_are_skipped() -> None:
    answer, _, quotes = read_cited_blocks([{"type": "thinking", "thinking": "hm"}, text("Dogs.")], GIVEN)
    assert (answer, quotes) == ("Dogs.", [])
