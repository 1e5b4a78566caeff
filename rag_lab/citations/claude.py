"""Claude's own Citations: sources as documents of a request, and the cited blocks of a response in our report.

https://platform.claude.com/docs/en/build-with-claude/citations has the feature; the shapes are the SDK's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_lab.citations.quotes import ground_quote
from rag_lab.citations.validation import CitationReport, report
from rag_lab.prompting.citation_markers import Citation
from rag_lab.prompting.templates import Source
from rag_lab.types import CharSpan


@dataclass(frozen=True)
class CitedPlace:
    """A place in a source that Claude cites, held against our text.

    ``status``: ``exact`` (the location it gave holds the cited text), ``moved`` (the text stands elsewhere, at
    ``span``), ``absent`` (it does not stand there, ``span`` is None), ``no_such_source``.
    """

    source_id: str
    cited_text: str
    status: Literal["exact", "moved", "absent", "no_such_source"]
    span: CharSpan | None = None


@dataclass(frozen=True)
class ClaudeAnswer:
    """An answer with a marker behind each cited piece, the report on it, and every place cited, in order."""

    text: str
    report: CitationReport
    places: tuple[CitedPlace, ...]


def document_blocks(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """A ``document`` block for each source, in order, with citations on; they go before the question's text block.

    The request is one for ``ClaudeLLM.send``, whose record has the content under ``["response"]["content"]``.
    Locations in the response then count characters of ``source.text``. Section path and address go to ``context``,
    which Claude reads and does not cite. The API takes no JSON schema together with citations.
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
    """A response's ``content`` (SDK objects or dictionaries) as a text with markers, and the report on it.

    ``sources`` are those of ``document_blocks``, in the same order: documents are cited by their number. A number
    that no source has becomes an invalid id. Blocks that are not text are left out.
    """
    pieces: list[str] = []
    citations: list[Citation] = []
    places: list[CitedPlace] = []
    at = 0
    for block in map(_fields, content):
        if block.get("type", "text") != "text":
            continue
        text = str(block.get("text") or "")
        found = [_place(_fields(citation), sources) for citation in block.get("citations") or ()]
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
    return ClaudeAnswer(answer, report(answer, citations, (), sources), tuple(places))


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else vars(value)


def _place(citation: Mapping[str, Any], sources: Sequence[Source]) -> CitedPlace:
    number = citation.get("document_index", citation.get("search_result_index"))
    if not isinstance(number, int):
        kind = citation.get("type")
        raise ValueError(f"A citation of type {kind!r} names no document of the request; only those can be checked.")
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
