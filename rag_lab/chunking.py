"""Cutting documents into chunks by seven strategies, and joining neighbours again.

All strategies work alike: splitters of ``segments`` find units, ``_pack`` fills windows with them, the windows
become chunks. For any text in any script: a chunk's text is ``document.text[start:end]``; starts strictly increase;
no chunk lies wholly inside the one before; only white space is left out; no grapheme cluster is cut; no chunk exceeds
``size``, unless a single cluster does. Blank text gives no chunks. ``section_path`` is the Markdown section where the
chunk starts. Every chunker raises ValueError for a size under 1 or no integer, and for an overlap not below it.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from pathlib import PurePosixPath
from typing import Any

from rag_lab.text.segmentation import (
    Section,
    cluster_starts,
    clusters,
    code_blocks,
    code_members,
    lines,
    paragraphs,
    sections,
    sentences,
    words,
)
from rag_lab.types import CharSpan, Chunk, Document

Splitter = Callable[[str, int, int], Iterable[CharSpan]]

_PROSE_SUFFIXES = {"", ".md", ".markdown", ".txt", ".text", ".html", ".htm", ".pdf"}
SECTION_CHARS = 1500


def chunk_chars(document: Document, size: int | None = 1500, overlap: int = 300) -> list[Chunk]:
    """Windows of ``size`` characters that share ``overlap`` characters, cut anywhere but inside a grapheme cluster.

    White space stays in: with overlap 0 the chunks put together are the document (only chunks of nothing but white
    space are left out). ``size=None``: one cluster a chunk.
    """
    _check(size, overlap)
    text = document.text
    bounds = cluster_starts(text)
    starts, ends, characters = bounds[:-1], bounds[1:], range(len(text))
    spans: Iterable[CharSpan] = zip(starts, ends, strict=True)
    if size is not None:
        spans = _pack(starts, ends, size, characters, overlap, characters, starts)
    return _chunks(document, [(start, end) for start, end in spans if text[start:end].strip()])


def chunk_words(document: Document, size: int | None = 200, overlap: int = 0) -> list[Chunk]:
    """Windows of ``size`` words that share ``overlap`` words. ``size=None``: one word a chunk.

    A word is a run without white space or, in a script without spaces (Chinese, Japanese, Thai …), one character.
    """
    _check(size, overlap)
    text = document.text
    units = _split(text, cluster_starts(text), (0, len(text)), words)
    if size is not None:
        starts = [start for start, _ in units]
        units = list(_pack(starts, [end for _, end in units], size, starts, overlap, starts, starts))
    return _chunks(document, units)


def chunk_tokens(document: Document, size: int | None = 256, overlap: int = 0, tokenizer: Any = None) -> list[Chunk]:
    """Windows of ``size`` tokens that share ``overlap`` tokens. ``size=None``: one token a chunk.

    Tokens are those of the whole document, without special ones; a chunk tokenized by itself may have a token or two
    more where it starts inside a word. A boundary inside a grapheme cluster moves to the cluster's start, and tokens
    that begin in one cluster stay together. ``tokenizer`` is a fast tokenizer of transformers (else ValueError).
    """
    _check(size, overlap)
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"by_tokens needs a fast tokenizer, not {tokenizer!r}: pass tokenizer=encoder.tokenizer.")
    text = document.text
    # verbose=False, because a document longer than the model's window is no mistake here.
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
    bounds = cluster_starts(text)
    begins = [_floor(bounds, start) for start, end in encoded["offset_mapping"] if start < end]
    # A unit reaches to where the next token begins: what the tokenizer drops (control characters, say) is not lost.
    cuts = sorted({0, *begins, len(text)})
    units = _split(text, bounds, (0, len(text)), lambda *_: pairwise(cuts))
    if size is not None:
        starts = [start for start, _ in units]
        # A token counts where its unit starts, which is after white space: elsewhere it would be outside the unit.
        counted = {cuts[bisect.bisect_right(cuts, start) - 1]: start for start in starts}
        marks = sorted(counted.get(begin, begin) for begin in begins)
        units = list(_pack(starts, [end for _, end in units], size, marks, overlap, marks, starts))
    return _chunks(document, units)


def chunk_sentences(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Whole sentences, up to ``size`` characters with the last ``overlap`` words of the chunk before.

    A sentence longer than ``size`` is cut between words. ``size=None``: one sentence a chunk.
    """
    return _chunk_by(document, size, overlap, sentences, (words, clusters))


def chunk_paragraphs(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Whole paragraphs, up to ``size`` characters with the last ``overlap`` words of the chunk before.

    A paragraph longer than ``size`` is cut between sentences. ``size=None``: one paragraph a chunk.
    """
    return _chunk_by(document, size, overlap, paragraphs, (sentences, words, clusters))


def chunk_headings(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Markdown sections, one a chunk; a section longer than ``size`` characters is cut between paragraphs.

    ``overlap`` is in words, from the same section. A heading with only a deeper heading under it goes with that one.
    """
    _check(size, overlap)
    text, bounds = document.text, cluster_starts(document.text)
    structure = _sections(document)
    spans: list[CharSpan] = []
    for part in _split(text, bounds, (0, len(text)), lambda *_: [section[:2] for section in structure]):
        spans += _fill(text, bounds, [part], size, overlap, (paragraphs, sentences, words, clusters))
    return _chunks(document, spans, structure)


def chunk_code(document: Document, size: int | None = None, overlap: int = 0) -> list[Chunk]:
    """Whole functions and classes (see ``segments.code_blocks``), up to ``size`` characters.

    ``overlap`` is in words. A class longer than ``size`` is cut between its methods, what is still too long at blank
    lines and line ends. ``size=None``: one function or class, or what stands between two, a chunk.
    """
    finer = (code_members, code_members, paragraphs, lines, words, clusters)
    # A comment line of a program looks like a heading: no sections here.
    return _chunk_by(document, size, overlap, code_blocks, finer, [])


CHUNKERS: dict[str, Callable[..., list[Chunk]]] = {
    "raw": chunk_chars,
    "by_words": chunk_words,
    "by_tokens": chunk_tokens,
    "by_sentences": chunk_sentences,
    "by_paragraphs": chunk_paragraphs,
    "by_headings": chunk_headings,
    "by_code": chunk_code,
}


def merge_adjacent(chunks: Iterable[Chunk], documents: Iterable[Document] = ()) -> list[Chunk]:
    """Join chunks of one document that overlap or touch into one passage each.

    Chunks leave out the white space between them, so two neighbours without overlap touch only if their document is
    among ``documents``. Passages of a document come in the order of its text, documents in that of their first chunk.
    A passage has the first chunk's index, section and metadata, and the different ``context`` of each, a line apart.
    """
    chunks = list(chunks)
    texts = {document.id: document.text for document in documents}
    places: dict[str, int] = {}
    for chunk in chunks:
        places.setdefault(chunk.doc_id, len(places))
    groups: list[list[Chunk]] = []
    reach = 0
    for chunk in sorted(chunks, key=lambda chunk: (places[chunk.doc_id], chunk.start, chunk.end)):
        same = bool(groups) and groups[-1][0].doc_id == chunk.doc_id
        if same and (chunk.start <= reach or texts.get(chunk.doc_id, "")[reach : chunk.start].isspace()):
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
            reach = 0
        reach = max(reach, chunk.end)
    return [_passage(group, texts.get(group[0].doc_id, "")) for group in groups]


def _passage(group: list[Chunk], document_text: str) -> Chunk:
    first = group[0]
    pieces, end = [first.text], first.end
    for chunk in group[1:]:
        pieces += [document_text[end : chunk.start], chunk.text[max(0, end - chunk.start) :]]
        end = max(end, chunk.end)
    context = "\n".join(dict.fromkeys(chunk.context for chunk in group if chunk.context))
    return replace(first, text="".join(pieces), end=end, context=context)


def _check(size: int | None, overlap: int) -> None:
    for name, value in (("size", size), ("overlap", overlap)):
        if (isinstance(value, bool) or not isinstance(value, Integral)) and not (name == "size" and value is None):
            raise ValueError(f"{name} is {value!r}; give a whole number{' or None' if name == 'size' else ''}.")
    if overlap < 0:
        raise ValueError(f"overlap is {overlap}; give 0 or more.")
    if size is None:
        if overlap:
            raise ValueError(
                f"size=None gives one unit a chunk, without overlap; set overlap to 0 (it is {overlap})."
            )
    elif size < 1:
        raise ValueError(f"size is {size}; give 1 or more, or None for one unit a chunk.")
    elif overlap >= size:
        raise ValueError(f"overlap ({overlap}) must be smaller than size ({size}).")


def _chunk_by(
    document: Document,
    size: int | None,
    overlap: int,
    splitter: Splitter,
    finer: Sequence[Splitter],
    structure: Sequence[Section] | None = None,
) -> list[Chunk]:
    """Units by ``splitter``, windows measured in characters, overlap in words."""
    _check(size, overlap)
    text, bounds = document.text, cluster_starts(document.text)
    units = _split(text, bounds, (0, len(text)), splitter)
    return _chunks(document, _fill(text, bounds, units, size, overlap, finer), structure)


def _fill(
    text: str, bounds: Sequence[int], units: list[CharSpan], size: int | None, overlap: int, finer: Sequence[Splitter]
) -> list[CharSpan]:
    """Windows of whole units up to ``size`` characters; longer units are first cut by the ``finer`` splitters."""
    if size is None or not units:
        return units
    for splitter in finer:
        pieces = ([unit] if unit[1] - unit[0] <= size else _split(text, bounds, unit, splitter) for unit in units)
        units = [piece for group in pieces for piece in group]
    starts, ends = [start for start, _ in units], [end for _, end in units]
    word_starts = [start for start, _ in _split(text, bounds, (starts[0], ends[-1]), words)] if overlap else []
    return list(_pack(starts, ends, size, range(len(text)), overlap, word_starts, word_starts))


def _split(text: str, bounds: Sequence[int], span: CharSpan, splitter: Splitter) -> list[CharSpan]:
    """A splitter's spans inside ``span``, trimmed, and moved outwards to the bounds of grapheme clusters."""
    units: list[CharSpan] = []
    reached = span[0]
    for start, end in splitter(text, *span):
        piece = text[start:end]
        if not piece.strip():
            continue
        start, end = start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
        start, end = max(reached, _floor(bounds, start)), bounds[bisect.bisect_left(bounds, end)]
        if start < end:
            units.append((start, end))
            reached = end
    return units


def _floor(bounds: Sequence[int], offset: int) -> int:
    return bounds[bisect.bisect_right(bounds, offset) - 1]


def _pack(
    starts: Sequence[int],
    ends: Sequence[int],
    size: int,
    size_marks: Sequence[int],
    overlap: int,
    overlap_marks: Sequence[int],
    cuts: Sequence[int],
) -> Iterator[CharSpan]:
    """Windows over the units that ``starts`` and ``ends`` bound.

    A window is measured by the marks in it: sorted offsets of the characters, words or tokens. It begins at the first
    of ``cuts`` (sorted offsets where a window may begin) that repeats at most ``overlap`` marks of the window before
    and leaves room for one whole new unit; failing that, at the new unit. So each brings at least one unit more.
    """
    first, unit = (starts[0], 0) if starts else (0, 0)
    while unit < len(starts):
        limit = bisect.bisect_left(size_marks, first) + size  # the number of marks that may stand before the end
        fits = bisect.bisect_right(ends, size_marks[limit]) if limit < len(size_marks) else len(ends)
        following = max(fits, unit + 1)
        end = ends[following - 1]
        yield first, end
        if following < len(starts):
            shared = bisect.bisect_left(overlap_marks, end) - overlap
            spare = bisect.bisect_left(size_marks, ends[following]) - size
            # The new window begins after the last marks that are too many: of the overlap, and of a window that still
            # takes in the new unit. The latter lie beyond ``first``, from where that unit was out of reach.
            after = max(overlap_marks[shared - 1] if shared > 0 else -1, size_marks[spare - 1] if spare > 0 else -1)
            place = bisect.bisect_right(cuts, after)
            first = min(starts[following], cuts[place]) if place < len(cuts) else starts[following]
        unit = following


def _sections(document: Document) -> list[Section]:
    """The document's Markdown sections; one for all of it where its file is of a kind that has none (a program)."""
    suffix = PurePosixPath(str(document.metadata.get("file", ""))).suffix.lower()
    return sections(document.text) if suffix in _PROSE_SUFFIXES else [Section(0, len(document.text), ())]


def _chunks(document: Document, spans: Iterable[CharSpan], structure: Sequence[Section] | None = None) -> list[Chunk]:
    structure = _sections(document) if structure is None else structure
    section_starts = [section.start for section in structure]
    chunks = []
    for index, (start, end) in enumerate(spans):
        place = bisect.bisect_right(section_starts, start) - 1
        path = structure[place].path if structure else ()
        piece = document.text[start:end]
        chunks.append(
            Chunk(document.id, index, piece, start, end, document.title, document.uri, path, document.metadata)
        )
    return chunks


def slice_chunk(chunk: Chunk, spans: Iterable[CharSpan]) -> list[Chunk]:
    """The ranges of ``chunk.text`` as chunks of their own, joined where only white space lies between two.

    Each is still ``document.text[start:end]``, without white space around it, and keeps the chunk's index and so its
    id; blank ranges give none.
    """
    text = chunk.text
    joined: list[list[int]] = []
    for start, end in sorted(spans):
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    found = []
    for start, end in joined:
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        if piece := piece.strip():
            begin = chunk.start + start
            found.append(replace(chunk, text=piece, start=begin, end=begin + len(piece)))
    return found
