"""An answer by Claude's own Citations feature: the sources as documents, and its citations checked in our text."""

from dataclasses import replace
from typing import Unpack

from rag_lab.answering.pipeline import AnswerOptions, check, conclude, failed, prepare
from rag_lab.answering.trace import Answer
from rag_lab.citations.claude import document_blocks, read_cited_blocks
from rag_lab.llm import claude
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Block, Turn
from rag_lab.prompting.templates import load_template
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
