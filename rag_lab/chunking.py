"""Cut documents into chunks by several strategies, and join neighbouring chunks again.

Splitters of ``text.segmentation`` find units (words, sentences, sections …), ``_windows`` fills windows with them,
and the windows become chunks. For any text in any script: a chunk's text is ``document.text[start:end]``; starts
strictly increase; no chunk lies wholly inside the one before; only white space is left out; no grapheme cluster is
cut; no chunk exceeds ``size``, unless it is a single cluster. Blank text gives no chunks. ``section_path`` is the
Markdown section in which the chunk starts. Every chunker raises ValueError if ``size`` is not a whole number of 1 or
more, or if ``overlap`` is not smaller than ``size``.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from numbers import Integral
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from rag_lab.text.segmentation import (
    Section,
    cluster_starts,
    clusters,
    code_blocks,
    lines,
    paragraphs,
    sections,
    sentences,
    strip_span,
    words,
)
from rag_lab.types import CharSpan, Chunk, Document

Chunker = Callable[..., list[Chunk]]
Splitter = Callable[[str, int, int], Iterable[CharSpan]]

# HTML and Word are read as Markdown.
_MARKDOWN_SUFFIXES = {"", ".md", ".markdown", ".html", ".htm", ".xhtml", ".docx"}
SECTION_CHARS = 1500


def chunk_chars(document: Document, size: int | None = 1500, overlap: int = 300) -> list[Chunk]:
    """Windows of ``size`` characters that share ``overlap`` characters, cut anywhere but in a grapheme cluster.

    White space stays. With overlap 0 the joined chunks are the document, except that blank windows are dropped.
    ``size=None``: one cluster per chunk.
    """
    _check(size, overlap)
    text = document.text
    bounds = cluster_starts(text)
    spans = _windows(Units(bounds[:-1], bounds[1:], range(len(text))), size, overlap)
    return _chunks(document, [(start, end) for start, end in spans if text[start:end].strip()])


def chunk_words(document: Document, size: int | None = 200, overlap: int = 0) -> list[Chunk]:
    """Windows of ``size`` words that share ``overlap`` words. ``size=None``: one word per chunk.

    A word is a run without white space or, in a script without spaces (Chinese, Japanese, Thai …), one character.
    """
    _check(size, overlap)
    text = document.text
    units = _units(_split(text, cluster_starts(text), (0, len(text)), words))
    return _chunks(document, _windows(units, size, overlap))


def chunk_tokens(document: Document, size: int | None = 256, overlap: int = 0, tokenizer: Any = None) -> list[Chunk]:
    """Windows of ``size`` tokens that share ``overlap`` tokens. ``size=None``: one token per chunk.

    Tokens are those of the whole document, without special tokens; a chunk that starts inside a word may have one or
    two more when it is tokenized alone. A boundary inside a grapheme cluster moves to the cluster's start, and tokens
    that begin in one cluster stay together. ``tokenizer`` must be a fast tokenizer of transformers; else ValueError.
    """
    _check(size, overlap)
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"by_tokens needs a fast tokenizer, not {tokenizer!r}: pass tokenizer=encoder.tokenizer.")
    text = document.text
    # verbose=False: a document may be longer than the model's window, so that warning is of no use here.
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
    bounds = cluster_starts(text)
    token_starts = [_floor(bounds, start) for start, end in encoded["offset_mapping"] if start < end]
    # A unit reaches to the next token's start, so that nothing is lost that the tokenizer drops (control characters).
    cuts = sorted({0, *token_starts, len(text)})
    spans = _split(text, bounds, (0, len(text)), lambda *_: pairwise(cuts))
    # A unit starts after the white space of its cut; its tokens count from there, or they would lie outside it.
    moved = {cuts[bisect.bisect_right(cuts, start) - 1]: start for start, _ in spans}
    units = _units(spans, sorted(moved.get(start, start) for start in token_starts))
    return _chunks(document, _windows(units, size, overlap))


def chunk_sentences(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Whole sentences, up to ``size`` characters, with the last ``overlap`` words of the chunk before.

    A sentence longer than ``size`` is cut between words. ``size=None``: one sentence per chunk.
    """
    return _chunk_by(document, size, overlap, sentences, (words, clusters))


def chunk_paragraphs(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Whole paragraphs, up to ``size`` characters, with the last ``overlap`` words of the chunk before.

    A paragraph longer than ``size`` is cut between sentences. ``size=None``: one paragraph per chunk.
    """
    return _chunk_by(document, size, overlap, paragraphs, (sentences, words, clusters))


def chunk_headings(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Markdown sections, one per chunk; a section longer than ``size`` characters is cut between paragraphs.

    ``overlap`` is in words of the same section. A heading with only a deeper heading under it joins that section.
    """
    _check(size, overlap)
    text, bounds = document.text, cluster_starts(document.text)
    structure = _sections(document)
    spans: list[CharSpan] = []
    for part in _split(text, bounds, (0, len(text)), lambda *_: [section[:2] for section in structure]):
        spans += _fill(text, bounds, [part], size, overlap, (paragraphs, sentences, words, clusters))
    return _chunks(document, spans, structure)


def chunk_code(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Whole functions and classes (see ``segmentation.code_blocks``), up to ``size`` characters.

    ``overlap`` is in words. A class longer than ``size`` is cut between methods, then at blank lines, then at lines.
    ``size=None``: one function, class or stretch between two per chunk.
    """
    members = partial(code_blocks, inside=True)
    finer = (members, members, paragraphs, lines, words, clusters)
    # No sections, because a comment line of a program looks like a heading.
    return _chunk_by(document, size, overlap, code_blocks, finer, [])


CHUNKERS: dict[str, Chunker] = {
    "raw": chunk_chars,
    "by_words": chunk_words,
    "by_tokens": chunk_tokens,
    "by_sentences": chunk_sentences,
    "by_paragraphs": chunk_paragraphs,
    "by_headings": chunk_headings,
    "by_code": chunk_code,
}


def chunk_corpus(documents: Iterable[Document], chunker: Chunker, **options: Any) -> list[Chunk]:
    """The chunks of all ``documents``, in order; each document is cut by ``chunker(document, **options)``."""
    return [chunk for document in documents for chunk in chunker(document, **options)]


def merge_adjacent(chunks: Iterable[Chunk], documents: Iterable[Document] = ()) -> list[Chunk]:
    """Join the chunks of a document that overlap or touch into passages.

    Chunks leave out the white space between them, so neighbours without overlap touch only if their document is among
    ``documents``. Passages follow the order of the text; documents keep the order of their first chunk. A passage has
    the index, section and metadata of its first chunk, and each different ``context`` on a line.
    """
    chunks = list(chunks)
    texts = {document.id: document.text for document in documents}
    order = {doc_id: place for place, doc_id in enumerate(dict.fromkeys(chunk.doc_id for chunk in chunks))}
    groups: list[list[Chunk]] = []
    passages: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: (order[chunk.doc_id], chunk.start, chunk.end)):
        last = passages[-1] if passages and passages[-1].doc_id == chunk.doc_id else None
        between = texts.get(chunk.doc_id, "")[last.end : chunk.start] if last else ""
        if last and (chunk.start <= last.end or between.isspace()):
            text = last.text + between + chunk.text[max(0, last.end - chunk.start) :]
            passages[-1] = replace(last, text=text, end=last.start + len(text))
            groups[-1].append(chunk)
        else:
            passages.append(chunk)
            groups.append([chunk])
    contexts = ("\n".join(dict.fromkeys(chunk.context for chunk in group if chunk.context)) for group in groups)
    return [replace(passage, context=context) for passage, context in zip(passages, contexts, strict=True)]


def slice_chunk(chunk: Chunk, spans: Iterable[CharSpan]) -> list[Chunk]:
    """The ranges of ``chunk.text`` as chunks; ranges that overlap, or with only white space between them, are joined.

    Each text is still ``document.text[start:end]``, without white space around it, and keeps the chunk's index and
    id. Blank ranges give none.
    """
    text = chunk.text
    joined: list[CharSpan] = []
    for start, end in sorted(spans):
        if joined and not text[joined[-1][1] : start].strip():
            start, before = joined.pop()
            end = max(before, end)
        joined.append((start, end))
    return [
        replace(chunk, text=text[start:end], start=chunk.start + start, end=chunk.start + end)
        for start, end in (strip_span(text, *span) for span in joined)
        if start < end
    ]


def _check(size: int | None, overlap: int) -> None:
    for name, value, least in (("size", 1 if size is None else size, 1), ("overlap", overlap, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            none = ", or None for one unit per chunk" if name == "size" else ""
            raise ValueError(f"{name} is {value!r}; give a whole number, {least} or more{none}.")
    if size is None and overlap:
        raise ValueError(f"size=None makes one chunk per unit, without overlap; set overlap to 0, not {overlap}.")
    if size is not None and overlap >= size:
        raise ValueError(f"overlap ({overlap}) must be smaller than size ({size}).")


def _chunk_by(
    document: Document,
    size: int | None,
    overlap: int,
    splitter: Splitter,
    finer: Sequence[Splitter],
    structure: Sequence[Section] | None = None,
) -> list[Chunk]:
    """Units by ``splitter``, window size in characters, overlap in words."""
    _check(size, overlap)
    text, bounds = document.text, cluster_starts(document.text)
    spans = _split(text, bounds, (0, len(text)), splitter)
    return _chunks(document, _fill(text, bounds, spans, size, overlap, finer), structure)


def _fill(
    text: str, bounds: Sequence[int], spans: list[CharSpan], size: int | None, overlap: int, finer: Sequence[Splitter]
) -> list[CharSpan]:
    """Windows of up to ``size`` characters. Spans longer than that are cut by the next of the ``finer`` splitters."""
    if size is None or not spans:
        return spans
    for splitter in finer:
        parts = ([span] if span[1] - span[0] <= size else _split(text, bounds, span, splitter) for span in spans)
        spans = list(chain.from_iterable(parts))
    covered = (spans[0][0], spans[-1][1])
    word_starts = [start for start, _ in _split(text, bounds, covered, words)] if overlap else []
    return list(_windows(_units(spans, range(len(text))), size, overlap, word_starts))


def _split(text: str, bounds: Sequence[int], span: CharSpan, splitter: Splitter) -> list[CharSpan]:
    """A splitter's spans inside ``span``, stripped of white space, then widened to whole grapheme clusters."""
    spans: list[CharSpan] = []
    reached = span[0]
    for start, end in splitter(text, *span):
        start, end = strip_span(text, start, end)
        if start == end:
            continue
        start, end = max(reached, _floor(bounds, start)), bounds[bisect.bisect_left(bounds, end)]
        if start < end:
            spans.append((start, end))
            reached = end
    return spans


def _floor(bounds: Sequence[int], offset: int) -> int:
    return bounds[bisect.bisect_right(bounds, offset) - 1]


class Units(NamedTuple):
    """What windows are made of. All are sorted offsets; ``size`` counts the ``positions`` in a window."""

    starts: Sequence[int]
    ends: Sequence[int]
    positions: Sequence[int]  # of characters, words or tokens


def _units(spans: Sequence[CharSpan], positions: Sequence[int] | None = None) -> Units:
    """``positions=None``: each unit counts as one."""
    starts = [start for start, _ in spans]
    return Units(starts, [end for _, end in spans], starts if positions is None else positions)


def _windows(
    units: Units, size: int | None, overlap: int, word_starts: Sequence[int] | None = None
) -> Iterator[CharSpan]:
    """Windows of up to ``size`` positions, each with at least one unit more than the one before.

    ``overlap`` counts positions, and windows start at units. With ``word_starts`` it counts words, and windows start
    at any word. ``size=None``: one unit per window.
    """
    if size is None:
        yield from zip(units.starts, units.ends, strict=True)
        return
    start, following = (units.starts[0], 0) if units.starts else (0, 0)
    while following < len(units.starts):
        following = _window_end(units, start, following, size)
        yield start, units.ends[following - 1]
        if following < len(units.starts):
            start = _next_start(units, following, size, overlap, word_starts)


def _window_end(units: Units, start: int, new: int, size: int) -> int:
    """How many units end inside the window that begins at ``start``: unit ``new``, and those that fit after it."""
    limit = bisect.bisect_left(units.positions, start) + size  # the first position that does not fit
    if limit >= len(units.positions):
        return len(units.ends)
    return max(bisect.bisect_right(units.ends, units.positions[limit]), new + 1)


def _next_start(units: Units, new: int, size: int, overlap: int, word_starts: Sequence[int] | None) -> int:
    """Where the window that adds unit ``new`` starts: at that unit or, if it fits, ``overlap`` before it."""
    counted, allowed = (units.positions, units.starts) if word_starts is None else (word_starts, word_starts)
    repeats_at_most = _earliest(counted, units.ends[new - 1], overlap)
    has_room = _earliest(units.positions, units.ends[new], size)
    place = bisect.bisect_left(allowed, max(repeats_at_most, has_room))
    return min([units.starts[new], *allowed[place : place + 1]])


def _earliest(positions: Sequence[int], end: int, count: int) -> int:
    """The lowest offset with at most ``count`` of the ``positions`` between it and ``end``."""
    surplus = bisect.bisect_left(positions, end) - count
    return positions[surplus - 1] + 1 if surplus > 0 else 0


def _sections(document: Document) -> list[Section]:
    """The document's Markdown sections; one section for a file of another kind, such as plain text or a program."""
    suffix = PurePosixPath(str(document.metadata.get("file", ""))).suffix.lower()
    return sections(document.text) if suffix in _MARKDOWN_SUFFIXES else [Section(0, len(document.text), ())]


def _chunks(document: Document, spans: Iterable[CharSpan], structure: Sequence[Section] | None = None) -> list[Chunk]:
    structure = _sections(document) if structure is None else structure
    section_starts = [section.start for section in structure]
    metadata = {name: value for name, value in document.metadata.items() if name != "pages"}
    page_starts = document.metadata.get("pages", [])
    chunks = []
    for index, (start, end) in enumerate(spans):
        path = structure[bisect.bisect_right(section_starts, start) - 1].path if structure else ()
        if page_starts:
            path = (f"page {bisect.bisect_right(page_starts, start)}",)
        place = (document.id, index, document.text[start:end], start, end)
        chunks.append(Chunk(*place, document.title, document.uri, path, metadata))
    return chunks
