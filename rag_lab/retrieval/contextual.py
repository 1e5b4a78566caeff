"""Context for chunks: text that says where in its document a chunk belongs, apart from the chunk's own text."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import Any, Literal, get_args

from rag_lab import settings
from rag_lab.llm import batches
from rag_lab.llm.claude import CONTEXT_MODEL, ClaudeLLM
from rag_lab.llm.language_model import CallFailed, LanguageModel
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn, Usage
from rag_lab.storage import Store, content_key
from rag_lab.text.segmentation import headings, sentences
from rag_lab.types import CharSpan, Chunk, Document

PromptStyle = Literal["plain", "prefill", "example"]

PREFILL = "This chunk is about"
_EXAMPLE = (
    "The Halvorsen Library opened in 1954. It lends books and maps. Its reading room seats 80 people. Members pay "
    "12 crowns a year.",
    "Its reading room seats 80 people.",
    "This chunk is about the reading room of the Halvorsen Library and how many people it seats.",
)
_PROMPT_TAG = re.compile(r"</?(?:document|chunk)>")
_BATCH_SIZE = 8  # an interrupted run of a local model loses at most one batch
_MAX_OPENING_CHARS = 300  # a longer opening sentence (a table, code) is no summary and is cut


def add_heading_context(document: Document, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Chunks whose context is title and section path and, on a new line, the document's opening sentence.

    It needs no model. The context leaves out what the chunk says itself: headings in its text, and the opening
    sentence if the chunk overlaps it. Raises ValueError if a chunk is not of this document.
    """
    _check_chunks(document, chunks)
    start, end = _opening_sentence(document.text)
    opening = document.text[start:end]
    if len(opening) > _MAX_OPENING_CHARS:
        opening = opening[: _MAX_OPENING_CHARS + 1].rsplit(maxsplit=1)[0] + " …"
    found = []
    for chunk in chunks:
        path = dict.fromkeys(filter(None, (document.title, *chunk.section_path)))
        above = " > ".join(name for name in path if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", chunk.text))
        holds_opening = (chunk.start <= start and end <= chunk.end) or (start <= chunk.start and chunk.end <= end)
        found.append(replace(chunk, context="\n".join(filter(None, (above, "" if holds_opening else opening)))))
    return found


def add_llm_context(
    document: Document,
    chunks: Sequence[Chunk],
    llm: LanguageModel | None = None,
    style: PromptStyle | None = None,
    max_tokens: int | None = None,
    as_batch: bool = False,
) -> list[Chunk]:
    """Chunks with the context that ``llm`` writes for each; see ``generate_contexts``, which takes many documents."""
    return [chunk for chunk, _ in generate_contexts([document], chunks, llm, style, max_tokens, as_batch)]


def generate_contexts(
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    llm: LanguageModel | None = None,
    style: PromptStyle | None = None,
    max_tokens: int | None = None,
    as_batch: bool = False,
) -> Iterator[tuple[Chunk, Usage]]:
    """Each chunk with its context and the usage of writing it, document by document, as they are written.

    ``llm`` is by default Claude's ``CONTEXT_MODEL``, in the modes and under the cap of ``ClaudeLLM``. ``style`` is
    the published prompt (``plain``), the same with the first words of the answer (``prefill``, the default for models
    that need one: small models give empty answers to the plain prompt), or with a worked example before it
    (``example``). A context that reaches ``max_tokens`` (default: 60 for models that need a prefill, else 200) is cut
    after its last whole sentence. The document is a block of its own with a cache mark: a cached prefix for all its
    chunks.

    A paid model works on several documents at the same time, or at half price as a Message Batch (``as_batch``), and
    its responses are recorded. Contexts by other models are stored in ``contexts.jsonl`` in the cache folder as they
    come. An interrupted run that is started again requests only what is missing; the usage is that of the first time.
    A document too long for a local model's window is split into parts that fit, with a warning, and a chunk's context
    is written from the part in which it starts. Raises ValueError if a chunk is of none of the documents, and
    RuntimeError if calls failed, after all the others are made.
    """
    llm = llm or ClaudeLLM(CONTEXT_MODEL)
    style = style or ("prefill" if llm.needs_prefill else "plain")
    max_tokens = (60 if llm.needs_prefill else 200) if max_tokens is None else max_tokens
    by_document: dict[str, list[Chunk]] = {document.id: [] for document in documents}
    if len(by_document) < len(documents):
        raise ValueError("Two of the documents have the same id: give each its own, once.")
    for chunk in chunks:
        if chunk.doc_id not in by_document:
            raise ValueError(f"Chunk {chunk.id} is of none of the {len(documents)} documents given.")
        by_document[chunk.doc_id].append(chunk)
    groups = [_prompts(document, by_document[document.id], llm, style, max_tokens) for document in documents]
    if as_batch:
        contexts = _completed(llm, batches.complete_batch(llm, list(chain(*groups)), max_tokens))
    elif llm.paid:
        contexts = _completed(llm, list(chain(*llm.complete_groups(groups, max_tokens))))
    else:
        contexts = _stored(llm, groups, max_tokens)
    empty = 0
    for chunk, (context, usage) in zip(chain(*by_document.values()), contexts, strict=True):
        empty += not context
        yield replace(chunk, context=context), usage
    if empty:
        warnings.warn(f"{llm.name} wrote no context for {empty} of {len(chunks)} chunks.", stacklevel=2)


def _completed(llm: LanguageModel, outcomes: Sequence[Completion | CallFailed]) -> Iterator[tuple[str, Usage]]:
    completions = [outcome for outcome in outcomes if isinstance(outcome, Completion)]
    if failed := [outcome for outcome in outcomes if isinstance(outcome, CallFailed)]:
        raise RuntimeError(
            f"{llm.name} wrote no context for {len(failed)} of {len(outcomes)} chunks. The first reason: {failed[0]} "
            "The others are recorded: run it again to request only these."
        ) from failed[0]
    yield from ((_whole_sentences(completion), completion.usage) for completion in completions)


def _stored(llm: LanguageModel, groups: list[list[Prompt]], max_tokens: int) -> Iterator[tuple[str, Usage]]:
    """Contexts in the order of the prompts, from ``contexts.jsonl`` or written now. A group is one document's."""
    store = Store(settings.cache_folder() / "contexts.jsonl")
    for batch in (group[i : i + _BATCH_SIZE] for group in groups for i in range(0, len(group), _BATCH_SIZE)):
        keys = [content_key(llm.identity, llm.dtype, asdict(prompt), max_tokens) for prompt in batch]
        missing = {key: prompt for key, prompt in zip(keys, batch, strict=True) if store.get(key) is None}
        for key, outcome in zip(missing, llm.complete_many(list(missing.values()), max_tokens), strict=True):
            if isinstance(outcome, CallFailed):
                raise outcome
            store.put(key, {"context": _whole_sentences(outcome), "usage": asdict(outcome.usage)})
        records: list[Any] = [store.get(key) for key in keys]
        yield from ((record["context"], Usage(**record["usage"])) for record in records)


def context_prompt(document_text: str, chunk_text: str, style: PromptStyle = "plain") -> Prompt:
    """The published prompt in two blocks, the document's with a cache mark. ``style``: see ``generate_contexts``."""
    if style not in get_args(PromptStyle):
        raise ValueError(f"style is {style!r}; it must be one of {', '.join(get_args(PromptStyle))}.")
    turns = [_request(document_text, chunk_text)]
    if style == "example":
        document, chunk, context = _EXAMPLE
        turns = [_request(document, chunk), Turn("assistant", (Block(context),)), *turns]
    elif style == "prefill":
        turns.append(Turn("assistant", (Block(PREFILL),)))
    return Prompt(tuple(turns))


def _request(document: str, chunk: str) -> Turn:
    # The words of Anthropic, "Introducing Contextual Retrieval" (2024-09-19).
    ask = (
        f"\n\nHere is the chunk we want to situate within the whole document\n<chunk>\n{chunk}\n</chunk>\n"
        "Please give a short succinct context to situate this chunk within the overall document for the purposes of "
        "improving search retrieval of the chunk. Answer only with the succinct context and nothing else."
    )
    return Turn("user", (Block(f"<document>\n{document}\n</document>", cache="5m"), Block(ask)))


def _prompts(
    document: Document, chunks: Sequence[Chunk], llm: LanguageModel, style: PromptStyle, max_tokens: int
) -> list[Prompt]:
    _check_chunks(document, chunks)
    parts = [(0, len(document.text))]
    if chunks and not llm.paid:  # counting would be a call for each prompt
        longest = max((chunk.text for chunk in chunks), key=llm.count_tokens)
        parts = _parts_that_fit(document, longest, llm, style, max_tokens)
    part_of = [max(part for part in parts if part[0] <= chunk.start) for chunk in chunks]
    return [
        context_prompt(document.text[start:end], chunk.text, style)
        for chunk, (start, end) in zip(chunks, part_of, strict=True)
    ]


def _parts_that_fit(
    document: Document, longest: str, llm: LanguageModel, style: PromptStyle, max_tokens: int
) -> list[CharSpan]:
    """Ranges of the document that fit the window beside its longest chunk and a context; one range if all fits."""
    text = document.text

    def fits(start: int, end: int) -> bool:
        return llm.count_prompt_tokens(context_prompt(text[start:end], longest, style)) + max_tokens <= llm.window

    if not fits(0, 1):
        raise ValueError(
            f"{document.id}: its longest chunk has {llm.count_tokens(longest)} tokens, so {llm.name}'s window of "
            f"{llm.window} has no room for any of the document: use smaller chunks."
        )

    def split(start: int, end: int) -> list[CharSpan]:
        """The range, halved until each part fits, after the last paragraph, line or word of its second quarter."""
        if fits(start, end):
            return [(start, end)]
        middle = (start + end) // 2
        marks = [mark for mark in ("\n\n", "\n", " ") if mark in text[(3 * start + end) // 4 : middle]]
        if marks:
            middle = text.rindex(marks[0], start, middle) + len(marks[0])
        return split(start, middle) + split(middle, end)

    parts = split(0, len(text))
    if len(parts) > 1:
        warnings.warn(
            f"{document.id} has {llm.count_tokens(text)} tokens, too many for {llm.name}'s window of {llm.window}: "
            f"the context of each chunk is written from one of {len(parts)} parts.",
            stacklevel=5,
        )
    return parts


def _whole_sentences(completion: Completion) -> str:
    """The text up to the first tag of the prompt (small models repeat it), without a last sentence that was cut off.

    If there is only one sentence, it stays.
    """
    text = _PROMPT_TAG.split(completion.text)[0].strip()
    followed = text + " Next"  # if the last sentence is whole, another one starts here
    *whole, _ = sentences(followed, 0, len(followed))
    return text[: whole[-1][1]].rstrip() if whole and completion.stop_reason == "max_tokens" else text


def _check_chunks(document: Document, chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        if chunk.doc_id != document.id or document.text[chunk.start : chunk.end] != chunk.text:
            raise ValueError(f"Chunk {chunk.id} is not a piece of document {document.id!r}.")


def _opening_sentence(text: str) -> CharSpan:
    """The range of the first sentence outside headings, without white space around it; (0, 0) if there is none."""
    marks = headings(text)
    for start, end in sentences(text, 0, len(text)):
        if (sentence := text[start:end].strip()) and not any(mark.start <= start < mark.end for mark in marks):
            start = text.index(sentence, start)
            return start, start + len(sentence)
    return 0, 0
