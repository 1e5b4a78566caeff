"""Context for chunks: text that says where in its document a chunk stands, kept apart from the chunk's own text."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, get_args

from rag_lab import settings
from rag_lab.llm import batches
from rag_lab.llm.claude import SITUATING_MODEL, ClaudeLLM
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn, Usage
from rag_lab.storage import Store, content_key
from rag_lab.text.segmentation import headings, sentences
from rag_lab.types import Chunk, Document

Form = Literal["plain", "beginning", "example"]

# Anthropic, "Introducing Contextual Retrieval" (2024-09-19): what stands before and after the document, and before
# and after the chunk. The texts are joined to these, never put in by a template: nothing that they hold is replaced.
CONTEXT_PROMPT = (
    ("<document>\n", "\n</document>"),
    (
        "\n\nHere is the chunk we want to situate within the whole document\n<chunk>\n",
        "\n</chunk>\nPlease give a short succinct context to situate this chunk within the overall document for the "
        "purposes of improving search retrieval of the chunk. Answer only with the succinct context and nothing "
        "else.",
    ),
)
BEGINNING = "This chunk is about"
_EXAMPLE = (
    "The Halvorsen Library opened in 1954. It lends books and maps. Its reading room seats 80 people. Members pay "
    "12 crowns a year.",
    "Its reading room seats 80 people.",
    "This chunk is about the reading room of the Halvorsen Library and how many people it seats.",
)
_PROMPT_TAG = re.compile(r"</?(?:document|chunk)>")
_AT_ONCE = 8  # chunks that a local model writes side by side; so many are lost when it is killed
_OPENING_CHARS = 300  # a longer opening sentence (a table, code) is no summary and is cut


def add_heading_context(document: Document, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Chunks with title and section path, then on a new line the document's opening sentence, as their context.

    No model is asked. What a chunk says itself is not repeated: headings that its text holds, and the opening
    sentence where it stands in the chunk. ValueError for a chunk of another document.
    """
    _check_chunks(document, chunks)
    text = document.text
    start, end = _opening(text)
    opening = text[start:end]
    if len(opening) > _OPENING_CHARS:
        opening = opening[: _OPENING_CHARS + 1].rsplit(maxsplit=1)[0] + " …"
    found = []
    for chunk in chunks:
        path = dict.fromkeys(filter(None, (document.title, *chunk.section_path)))
        above = " > ".join(name for name in path if not _holds(chunk.text, name))
        apart = not ((chunk.start <= start and end <= chunk.end) or (start <= chunk.start and chunk.end <= end))
        context = "\n".join(part for part in (above, opening if apart else "") if part)
        found.append(replace(chunk, context=context))
    return found


def add_llm_context(
    document: Document,
    chunks: Sequence[Chunk],
    llm: Any = None,
    form: Form | None = None,
    max_tokens: int | None = None,
    as_batch: bool = False,
) -> list[Chunk]:
    """Chunks with the context that ``llm`` writes for each. See ``situate``, which takes several documents."""
    return [chunk for chunk, _ in situate([document], chunks, llm, form, max_tokens, as_batch)]


def situate(
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    llm: Any = None,
    form: Form | None = None,
    max_tokens: int | None = None,
    as_batch: bool = False,
) -> Iterator[tuple[Chunk, Usage]]:
    """Each chunk with its context and the usage that writing it took, document by document, as they are written.

    Without an ``llm`` it is Claude's ``SITUATING_MODEL``, in the modes and under the cap of ``ClaudeLLM``.
    ``form`` is the published prompt (``plain``), the same with the answer begun (``beginning``, the default for a
    local model: small ones answer the plain one emptily), or with a worked example before it (``example``). A
    context that reaches ``max_tokens`` (by default 60 for a local model, else 200) is cut after its last whole
    sentence. The document is a block of its own, marked to be cached, so it is read once for all its chunks.

    Claude works on several documents at once, or at half price by Message Batches (``as_batch``), and records what
    it writes; any other model's contexts go to ``contexts.jsonl`` in the cache folder as they come. A run that was
    killed, started again, asks only for what is missing; usage is then as it was when the context was written. A
    document too long for a local model's window is cut in parts that fit, with a warning, and each chunk situated
    in the part where it starts. ValueError for a chunk of none of the documents; RuntimeError, after all are asked
    for, where Claude failed for some.
    """
    llm = llm or ClaudeLLM(SITUATING_MODEL)
    local = isinstance(llm, LocalLLM)
    if as_batch and not isinstance(llm, ClaudeLLM):
        raise ValueError(f"as_batch is for Claude's Message Batches; {llm.name} has none.")
    form = form or ("beginning" if local else "plain")
    max_tokens = (60 if local else 200) if max_tokens is None else max_tokens
    by_document: dict[str, list[Chunk]] = {document.id: [] for document in documents}
    if len(by_document) < len(documents):
        raise ValueError("Two of the documents have the same id: give each its own, once.")
    for chunk in chunks:
        if chunk.doc_id not in by_document:
            raise ValueError(f"Chunk {chunk.id} is of none of the {len(documents)} documents given.")
        by_document[chunk.doc_id].append(chunk)
    groups = [_prompts(document, by_document[document.id], llm, form, max_tokens) for document in documents]
    ordered = [chunk for document in documents for chunk in by_document[document.id]]
    empty = 0
    for chunk, (context, usage) in zip(ordered, _write(llm, groups, max_tokens, as_batch), strict=True):
        empty += not context
        yield replace(chunk, context=context), usage
    if empty:
        warnings.warn(f"{llm.name} wrote no context for {empty} of {len(chunks)} chunks.", stacklevel=2)


def _write(llm: Any, groups: list[list[Prompt]], max_tokens: int, as_batch: bool) -> Iterator[tuple[str, Usage]]:
    """Contexts in the order of the prompts. A group holds one document's."""
    if isinstance(llm, ClaudeLLM):
        prompts = [prompt for group in groups for prompt in group]
        if as_batch:
            outcomes = batches.complete_batch(llm, prompts, max_tokens)
        else:
            outcomes = [outcome for group in llm.complete_groups(groups, max_tokens) for outcome in group]
        written = [outcome for outcome in outcomes if isinstance(outcome, Completion)]
        failed = [outcome for outcome in outcomes if not isinstance(outcome, Completion)]
        if failed:
            raise RuntimeError(
                f"{llm.name} wrote no context for {len(failed)} of {len(prompts)} chunks, first because of: "
                f"{failed[0]} The others are recorded: run it again to ask for these only."
            ) from failed[0]
        yield from ((_whole_sentences(completion), completion.usage) for completion in written)
        return
    store = Store(settings.cache_folder() / "contexts.jsonl")
    for group in groups:
        for first in range(0, len(group), _AT_ONCE):
            part = group[first : first + _AT_ONCE]
            model = (getattr(llm, "identity", llm.name), getattr(llm, "dtype", ""))
            keys = [content_key(*model, asdict(prompt), max_tokens) for prompt in part]
            records: dict[str, Any] = {key: store.get(key) for key in keys}
            missing = {key: prompt for key, prompt in zip(keys, part, strict=True) if records[key] is None}
            for key, completion in zip(missing, _complete(llm, list(missing.values()), max_tokens), strict=True):
                records[key] = {"context": _whole_sentences(completion), "usage": asdict(completion.usage)}
                store.put(key, records[key])
            yield from ((records[key]["context"], Usage(**records[key]["usage"])) for key in keys)


def _complete(llm: Any, prompts: list[Prompt], max_tokens: int) -> Iterator[Completion]:
    if isinstance(llm, LocalLLM):
        yield from llm.complete_many(prompts, max_tokens)
    else:
        yield from (llm.complete(prompt, max_tokens=max_tokens) for prompt in prompts)


def context_prompt(document_text: str, chunk_text: str, form: Form = "plain") -> Prompt:
    """The published prompt in two blocks, the document's marked to be cached; see ``situate`` for ``form``."""
    if form not in get_args(Form):
        raise ValueError(f"form is {form!r}; it must be one of {', '.join(get_args(Form))}.")
    example_document, example_chunk, example_context = _EXAMPLE
    turns: list[Turn] = []
    if form == "example":
        turns = [_question(example_document, example_chunk), Turn("assistant", (Block(example_context),))]
    turns.append(_question(document_text, chunk_text))
    if form == "beginning":
        turns.append(Turn("assistant", (Block(BEGINNING),)))
    return Prompt(tuple(turns))


def _question(document_text: str, chunk_text: str) -> Turn:
    (before_document, after_document), (before_chunk, after_chunk) = CONTEXT_PROMPT
    return Turn(
        "user",
        (
            Block(before_document + document_text + after_document, cache="5m"),
            Block(before_chunk + chunk_text + after_chunk),
        ),
    )


def _prompts(document: Document, chunks: Sequence[Chunk], llm: Any, form: Form, max_tokens: int) -> list[Prompt]:
    _check_chunks(document, chunks)
    text = document.text
    parts = [(0, len(text))]
    if isinstance(llm, LocalLLM) and chunks:
        parts = _parts(document, max((chunk.text for chunk in chunks), key=llm.count_tokens), llm, form, max_tokens)
    prompts = []
    for chunk in chunks:
        start, end = max(part for part in parts if part[0] <= chunk.start)
        prompts.append(context_prompt(text[start:end], chunk.text, form))
    return prompts


def _parts(document: Document, longest: str, llm: LocalLLM, form: Form, max_tokens: int) -> list[tuple[int, int]]:
    """Ranges of the document that each leave room for its longest chunk and a context; one, if the whole does."""
    text = document.text

    def fits(start: int, end: int) -> bool:
        return llm.count_prompt_tokens(context_prompt(text[start:end], longest, form)) + max_tokens <= llm.window

    if not fits(0, 1):
        raise ValueError(
            f"{document.id}: its longest chunk has {llm.count_tokens(longest)} tokens, and {llm.name}'s window of "
            f"{llm.window} has no room for any of the document beside it: cut smaller chunks."
        )
    parts = _halve(text, 0, len(text), fits)
    if len(parts) > 1:
        warnings.warn(
            f"{document.id} has {llm.count_tokens(text)} tokens, too many for {llm.name}'s window of {llm.window}: "
            f"each chunk is situated in one of {len(parts)} parts of it.",
            stacklevel=5,
        )
    return parts


def _halve(text: str, start: int, end: int, fits: Callable[[int, int], bool]) -> list[tuple[int, int]]:
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
    """The text, without the last sentence where that was cut off (unless it is the only one).

    It ends at a tag of the prompt: small models go on to repeat the prompt's own frame.
    """
    text = _PROMPT_TAG.split(completion.text)[0].strip()
    followed = text + " Next"  # shows whether the last sentence is whole: if so, another begins here
    spans = list(sentences(followed, 0, len(followed)))
    if completion.stop_reason != "max_tokens" or len(spans) < 2:
        return text
    return text[: spans[-2][1]].rstrip()


def _check_chunks(document: Document, chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        if chunk.doc_id != document.id or document.text[chunk.start : chunk.end] != chunk.text:
            raise ValueError(f"Chunk {chunk.id} is not a piece of document {document.id!r}.")


def _opening(text: str) -> tuple[int, int]:
    """Where the first sentence that is no heading stands, without the white space around it."""
    marks = headings(text)
    for start, end in sentences(text, 0, len(text)):
        sentence = text[start:end].strip()
        if sentence and not any(mark.start <= start < mark.end for mark in marks):
            start = text.index(sentence, start)
            return start, start + len(sentence)
    return 0, 0


def _holds(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
