"""An answer by Claude's own Citations feature: the sources as documents, and its citations checked in our text.

https://platform.claude.com/docs/en/build-with-claude/citations describes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from rag_lab.answering.pipeline import AnswerOptions, check, conclude, failed, prepare
from rag_lab.answering.trace import Answer
from rag_lab.citations.quotes import QuoteCheck, ground_quote
from rag_lab.citations.validation import CitationReport, build_report
from rag_lab.llm import claude
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Block, Turn
from rag_lab.prompting.citation_markers import Citation
from rag_lab.prompting.templates import Source, load_template
from rag_lab.types import Retriever


def answer_with_documents(
    question: str, retriever: Retriever, llm: ClaudeLLM, k: int = 5, **options: Unpack[AnswerOptions]
) -> Answer:
    """As ``answer`` in text form, but with Claude's own citations instead of markers that it writes.

    ``options`` are the keywords of ``prepare``. In ``text`` our marker follows each cited piece
    (``trace.completion_text`` has none); ``quotes`` has every cited passage, checked in our text. In ``trace.prompt``
    each document is a block of the last turn. The budget is counted with the layout ``documents``, which takes
    slightly more tokens than the document blocks.

    Raises ValueError for the JSON form and for ``query_aware``, which citations do not allow, and as ``prepare``.
    """
    if options.get("form", "text") != "text" or options.get("query_aware"):
        raise ValueError("Claude's citations go with neither the JSON form nor query_aware: leave them out.")
    options.setdefault("template", load_template("documents", system="prompts/claude_documents.txt"))
    prepared = prepare(question, retriever, llm, k, **options)
    if prepared.prompt is None:
        return conclude(prepared)
    blocks = (*(Block(source.text) for source in prepared.sources), Block(question))
    prompt = replace(prepared.prompt, turns=(*prepared.prompt.turns[:-1], Turn("user", blocks)))
    prepared = replace(prepared, trace=replace(prepared.trace, prompt=prompt))
    body = llm.request(prompt, prepared.max_tokens)
    body["messages"][-1]["content"][: len(prepared.sources)] = document_blocks(prepared.sources)
    try:
        record = llm.send(body)
    except CallFailed as error:
        return failed(prepared, str(error))
    completion = claude.completion(body, record)
    if completion.stop_reason == "refusal":
        return conclude(prepared, completion)
    text, report, quotes = read_cited_blocks(record["response"]["content"], prepared.sources)
    return check(prepared, completion, text, report, quotes)


def document_blocks(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """A ``document`` block with citations enabled for each source, to put before the question's text block.

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
