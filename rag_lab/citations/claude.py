"""Claude's Citations feature: sources as documents of a request, and the cited blocks of a response as a report.

https://platform.claude.com/docs/en/build-with-claude/citations describes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_lab.citations.quotes import ground_quote
from rag_lab.citations.validation import CitationReport, build_report
from rag_lab.prompting.citation_markers import Citation
from rag_lab.prompting.templates import Source
from rag_lab.types import CharSpan


@dataclass(frozen=True)
class CitedPlace:
    """A place in a source that Claude cites, checked against the source's text.

    ``status``: ``exact`` (the cited text is at the given location), ``moved`` (it is elsewhere, at ``span``),
    ``absent`` (it is not in the source; ``span`` is None), ``no_such_source``.
    """

    source_id: str
    cited_text: str
    status: Literal["exact", "moved", "absent", "no_such_source"]
    span: CharSpan | None = None


@dataclass(frozen=True)
class ClaudeAnswer:
    """An answer with a marker after each cited passage, its report, and all cited places in order."""

    text: str
    report: CitationReport
    places: tuple[CitedPlace, ...]


def document_blocks(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """A ``document`` block with citations enabled for each source, to put before the question's text block.

    Send the request with ``ClaudeLLM.send``, whose record has the content under ``["response"]["content"]``.
    Locations in the response count characters of ``source.text``. Claude reads section path and address (in
    ``context``) but does not cite them. The API does not accept a JSON schema together with citations.
    """
    blocks = []
    for source in sources:
        block: dict[str, Any] = {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": source.text},
            "citations": {"enabled": True},
        }
        context = "\n".join(filter(None, [" > ".join(source.section_path), source.uri]))
        block |= {name: value for name, value in (("title", source.title), ("context", context)) if value}
        blocks.append(block)
    return blocks


def read_cited_blocks(content: Sequence[Any], sources: Sequence[Source]) -> ClaudeAnswer:
    """A response's ``content`` (SDK objects or dictionaries) as a text with markers, and its report.

    ``sources`` are those of ``document_blocks`` in the same order, because documents are cited by number. A number
    without a source becomes an invalid id. Skips blocks that are not text. Raises ValueError for a citation that
    names no document, such as one of the web.
    """
    pieces: list[str] = []
    citations: list[Citation] = []
    places: list[CitedPlace] = []
    at = 0
    for block in map(_as_mapping, content):
        if block.get("type", "text") != "text":
            continue
        text = str(block.get("text") or "")
        found = [_place(_as_mapping(citation), sources) for citation in block.get("citations") or ()]
        ids = tuple(dict.fromkeys(place.source_id for place in found))
        if ids:
            said = text.rstrip()
            marker = "".join(f"[{id_}]" for id_ in ids)
            start = at + len(said) + 1
            citations.append(Citation(start, start + len(marker), marker, ids))
            text = f"{said} {marker}{text[len(said) :]}"
            places += found
        pieces.append(text)
        at += len(text)
    answer = "".join(pieces)
    return ClaudeAnswer(answer, build_report(answer, citations, (), sources), tuple(places))


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else vars(value)


def _place(citation: Mapping[str, Any], sources: Sequence[Source]) -> CitedPlace:
    number = citation.get("document_index", citation.get("search_result_index"))
    if not isinstance(number, int):
        kind = citation.get("type")
        raise ValueError(f"A citation of type {kind!r} names no document of the request, so it cannot be checked.")
    cited = str(citation.get("cited_text") or "")
    if not 0 <= number < len(sources):
        return CitedPlace(f"S{number + 1}", cited, "no_such_source")
    source = sources[number]
    start, end = citation.get("start_char_index"), citation.get("end_char_index")
    if isinstance(start, int) and isinstance(end, int) and 0 <= start < end and source.text[start:end] == cited:
        return CitedPlace(source.id, cited, "exact", (start, end))
    at = source.text.find(cited) if cited else -1
    found = (at, at + len(cited)) if at >= 0 else ground_quote(cited, source.text)
    return CitedPlace(source.id, cited, "moved" if found else "absent", found)
