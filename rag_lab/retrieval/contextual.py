"""Context for chunks: text that says where in its document a chunk belongs, apart from the chunk's own text."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
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

# Anthropic, "Introducing Contextual Retrieval" (2024-09-19): the text before and after the document, and before and
# after the chunk. They are concatenated, not filled into a template: braces and tags in the texts stay as they are.
CONTEXT_PROMPT = (
    ("<document>\n", "\n</document>"),
    (
        "\n\nHere is the chunk we want to situate within the whole document\n<chunk>\n",
        "\n</chunk>\nPlease give a short succinct context to situate this chunk within the overall document for the "
        "purposes of improving search retrieval of the chunk. Answer only with the succinct context and nothing "
        "else.",
    ),
)
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
        context = "\n".join(part for part in (above, "" if holds_opening else opening) if part)
        found.append(replace(chunk, context=context))
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
        flat = [prompt for group in groups for prompt in group]
        contexts = _completed(llm, batches.complete_batch(llm, flat, max_tokens))
    elif llm.paid:
        contexts = _completed(llm, [o for group in llm.complete_groups(groups, max_tokens) for o in group])
    else:
        contexts = _stored(llm, groups, max_tokens)
    empty = 0
    ordered = [chunk for document in documents for chunk in by_document[document.id]]
    for chunk, (context, usage) in zip(ordered, contexts, strict=True):
        empty += not context
        yield replace(chunk, context=context), usage
    if empty:
        warnings.warn(f"{llm.name} wrote no context for {empty} of {len(chunks)} chunks.", stacklevel=2)


def _completed(llm: LanguageModel, outcomes: Sequence[Completion | CallFailed]) -> Iterator[tuple[str, Usage]]:
    if failed := [outcome for outcome in outcomes if isinstance(outcome, CallFailed)]:
        raise RuntimeError(
            f"{llm.name} wrote no context for {len(failed)} of {len(outcomes)} chunks. The first reason: {failed[0]} "
            "The others are recorded: run it again to request only these."
        ) from failed[0]
    for outcome in outcomes:
        if isinstance(outcome, Completion):
            yield _whole_sentences(outcome), outcome.usage


def _stored(llm: LanguageModel, groups: list[list[Prompt]], max_tokens: int) -> Iterator[tuple[str, Usage]]:
    """Contexts in the order of the prompts, from ``contexts.jsonl`` or written now. A group is one document's."""
    store = Store(settings.cache_folder() / "contexts.jsonl")
    batched = [group[i : i + _BATCH_SIZE] for group in groups for i in range(0, len(group), _BATCH_SIZE)]
    for batch in batched:
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
        example_document, example_chunk, example_context = _EXAMPLE
        turns = [_request(example_document, example_chunk), Turn("assistant", (Block(example_context),)), *turns]
    if style == "prefill":
        turns.append(Turn("assistant", (Block(PREFILL),)))
    return Prompt(tuple(turns))


def _request(document_text: str, chunk_text: str) -> Turn:
    (before_document, after_document), (before_chunk, after_chunk) = CONTEXT_PROMPT
    document = Block(before_document + document_text + after_document, cache="5m")
    return Turn("user", (document, Block(before_chunk + chunk_text + after_chunk)))


def _prompts(
    document: Document, chunks: Sequence[Chunk], llm: LanguageModel, style: PromptStyle, max_tokens: int
) -> list[Prompt]:
    _check_chunks(document, chunks)
    parts = [(0, len(document.text))]
    if chunks and not llm.paid:  # counting would be a call for each prompt
        longest = max((chunk.text for chunk in chunks), key=llm.count_tokens)
        parts = _parts_that_fit(document, longest, llm, style, max_tokens)
    prompts = []
    for chunk in chunks:
        start, end = max(part for part in parts if part[0] <= chunk.start)
        prompts.append(context_prompt(document.text[start:end], chunk.text, style))
    return prompts


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
    parts = _halve(text, 0, len(text), fits)
    if len(parts) > 1:
        warnings.warn(
            f"{document.id} has {llm.count_tokens(text)} tokens, too many for {llm.name}'s window of {llm.window}: "
            f"the context of each chunk is written from one of {len(parts)} parts.",
            stacklevel=5,
        )
    return parts


def _halve(text: str, start: int, end: int, fits: Callable[[int, int], bool]) -> list[CharSpan]:
    """The range, halved until each part fits; the second quarter's last paragraph, line or word end is the cut."""
    if fits(start, end):
        return [(start, end)]
    middle = (start + end) // 2
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, (3 * start + end) // 4, middle)
        if at >= 0:
            middle = at + len(mark)
            break
    return _halve(text, start, middle, fits) + _halve(text, middle, end, fits)


def _whole_sentences(completion: Completion) -> str:
    """The text up to the first tag of the prompt (small models repeat it), without a last sentence that was cut off.

    If there is only one sentence, it stays.
    """
    text = _PROMPT_TAG.split(completion.text)[0].strip()
    followed = text + " Next"  # if the last sentence is whole, another one starts here
    spans = list(sentences(followed, 0, len(followed)))
    if completion.stop_reason != "max_tokens" or len(spans) < 2:
        return text
    return text[: spans[-2][1]].rstrip()


def _check_chunks(document: Document, chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        if chunk.doc_id != document.id or document.text[chunk.start : chunk.end] != chunk.text:
            raise ValueError(f"Chunk {chunk.id} is not a piece of document {document.id!r}.")


def _opening_sentence(text: str) -> CharSpan:
    """The range of the first sentence outside headings, without white space around it; (0, 0) if there is none."""
    marks = headings(text)
    for start, end in sentences(text, 0, len(text)):
        sentence = text[start:end].strip()
        if sentence and not any(mark.start <= start < mark.end for mark in marks):
            start = text.index(sentence, start)
            return start, start + len(sentence)
    return 0, 0
