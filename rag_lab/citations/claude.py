"""Claude's Citations feature: sources as documents of a request, and the cited blocks of a response as a report.

https://platform.claude.com/docs/en/build-with-claude/citations describes it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rag_lab.citations.quotes import QuoteCheck, ground_quote
from rag_lab.citations.validation import CitationReport, build_report
from rag_lab.prompting.citation_markers import Citation
from rag_lab.prompting.templates import Source


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
        context = "\n".join(filter(None, [" > ".join(source.chunk.section_path), source.chunk.uri]))
        block |= {name: value for name, value in (("title", source.chunk.title), ("context", context)) if value}
        blocks.append(block)
    return blocks


def read_cited_blocks(
    content: Sequence[Mapping[str, Any]], sources: Sequence[Source]
) -> tuple[str, CitationReport, list[QuoteCheck]]:
    """A response's ``content`` as a text with a marker after each cited passage, its report, and the cited texts.

    ``sources`` are those of ``document_blocks`` in the same order, because documents are cited by number. A number
    without a source becomes an invalid id. A cited text that is not at its location is searched in its source. Skips
    blocks that are not text. Raises ValueError for a citation that names no document, such as one of the web.
    """
    answer = ""
    citations: list[Citation] = []
    quotes: list[QuoteCheck] = []
    for block in content:
        if block["type"] != "text":
            continue
        found = [_checked(citation, sources) for citation in block.get("citations") or ()]
        said = block["text"].rstrip()
        answer += said
        if ids := tuple(dict.fromkeys(quote.source_id for quote in found)):
            marker = "".join(f"[{id_}]" for id_ in ids)
            citations.append(Citation(len(answer) + 1, len(answer) + 1 + len(marker), marker, ids))
            answer += f" {marker}"
        answer += block["text"][len(said) :]
        quotes += found
    return answer, build_report(answer, citations, (), sources), quotes


def _checked(citation: Mapping[str, Any], sources: Sequence[Source]) -> QuoteCheck:
    number = citation.get("document_index", citation.get("search_result_index"))
    if not isinstance(number, int):
        kind = citation.get("type")
        raise ValueError(f"A citation of type {kind!r} names no document of the request, so it cannot be checked.")
    cited = citation["cited_text"]
    if not 0 <= number < len(sources):
        return QuoteCheck(f"S{number + 1}", cited, "no_such_source")
    source, start = sources[number], citation.get("start_char_index", -1)
    if start < 0 or not source.text.startswith(cited, start):
        start = source.text.find(cited)
    span = (start, start + len(cited)) if cited and start >= 0 else ground_quote(cited, source.text)
    return QuoteCheck(source.id, cited, "found" if span else "not_found", span)
