"""Find a quote in a text, with its exact range, regardless of white space, dashes and quotation marks."""

import functools
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from rag_lab.prompting.templates import Source
from rag_lab.text.scripts import UNSPACED
from rag_lab.text.segmentation import words
from rag_lab.types import CharSpan

MIN_WORDS = 3  # per quote; a character of a script without spaces counts half
MIN_PART_WORDS = 2  # per part of a quote with an ellipsis
MAX_PARTS = 10
MAX_GAP = 300  # characters of the text that an ellipsis may replace

_DASHES = "-‐‑‒–—―−﹘﹣－"
_SINGLE_QUOTES = "'‘’‚‛′‹›`´׳＇"
_DOUBLE_QUOTES = '"“”„‟″«»״＂'
_PLAIN = dict.fromkeys(_DASHES, "-") | dict.fromkeys(_SINGLE_QUOTES, "'") | dict.fromkeys(_DOUBLE_QUOTES, '"')
_EDGES = _SINGLE_QUOTES + _DOUBLE_QUOTES + " \t\r\n\u00a0\u200b\u200e\u200f\u2066\u2067\u2068\u2069\ufeff"
_DOTS = r"(?:[…⋯]++|\.(?:\s?\.){2,}+)"
_BRACKETED = "|".join(rf"{a}\s{{0,3}}+{_DOTS}\s{{0,3}}+{b}" for a, b in ((r"\[", r"\]"), (r"\(", r"\)"), "<>"))
_ELLIPSIS = regex.compile(rf"{_DOTS}|{_BRACKETED}")
# A letter with its marks. Unicode's stream-safe limit of 30 marks keeps the reordering of hostile runs cheap.
_CLUSTER = regex.compile(r"\P{M}\p{M}{0,30}+|\p{M}{1,30}+", regex.DOTALL)
# Left out: hyphens inside words (at a line end it may belong to the word or to the typesetter), and white space in
# Chinese and Japanese, which comes from line ends.
_CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}\u3000-\u303f\uff00-\uff65]"
_LEFT_OUT = regex.compile(
    rf"(?<=[\p{{L}}\p{{M}}])(?:(?P<break>[-‐\u00ad][^\S\r\n]*+(?:\r\n?|\n)[^\S\r\n]*+)|(?P<hyphen>[{_DASHES}]))(?=\p{{L}})"
    rf"|(?<={_CJK})\s++(?={_CJK})"
)
_UNSPACED = regex.compile(rf"[{UNSPACED}]")


@dataclass(frozen=True)
class _Folded:
    """A folded text: ``text[i]`` comes from the characters ``starts[i]`` to ``ends[i]`` of the original.

    ``hyphens``: sorted offsets in ``text`` before which a hyphen inside a word was left out; ``breaks``: those of
    them that were at a line end.
    """

    text: str
    starts: list[int]
    ends: list[int]
    hyphens: list[int]
    breaks: frozenset[int]


@dataclass(frozen=True)
class QuoteCheck:
    """A quote checked against the source it names. ``span``: its range in ``source.text``, if it was found."""

    source_id: str
    quote: str
    status: Literal["found", "not_found", "too_short", "no_such_source"]
    span: CharSpan | None = None


def check_quotes(quotes: Sequence[tuple[str, str]], sources: Sequence[Source]) -> list[QuoteCheck]:
    """Check each (source id, quote) against that source alone; a quote stitched from two sources is not found."""
    texts = {source.id: source.text for source in sources}
    checks = []
    for source_id, quote in quotes:
        if source_id not in texts:
            checks.append(QuoteCheck(source_id, quote, "no_such_source"))
        elif span := ground_quote(quote, texts[source_id]):
            checks.append(QuoteCheck(source_id, quote, "found", span))
        else:
            checks.append(QuoteCheck(source_id, quote, "too_short" if too_short(quote) else "not_found"))
    return checks


def too_short(quote: str) -> bool:
    """Whether a quote has too few words to prove anything (``MIN_WORDS``; ``MIN_PART_WORDS`` per part)."""
    counts = [_count_words(part) for part in _parts(quote)]
    return sum(counts) < MIN_WORDS or (len(counts) > 1 and min(counts) < MIN_PART_WORDS)


def ground_quote(quote: str, text: str) -> CharSpan | None:
    """The character range of ``text`` that ``quote`` repeats. None if there is none or the quote is ``too_short``.

    Ignores on both sides: runs of white space, Unicode compatibility forms (except of digits), curly quotes, dashes,
    invisible characters such as soft hyphens, and hyphenation at line ends. Case, digits and words must be equal. An
    ellipsis splits the quote into parts, at most ``MAX_PARTS``, which must occur in order with at most ``MAX_GAP``
    characters between two; the range then runs from the first to the last. Quotation marks around the quote are
    ignored. A quote must not begin or end inside a word or number of the text ("5 days" is not in "2.5 days").
    """
    parts = _parts(quote)
    if sum(map(_count_words, parts)) < MIN_WORDS or len(parts) > MAX_PARTS:
        return None
    whole = _fold(text)
    verbatim = next(_occurrences(_fold(quote.strip(_EDGES)), whole), None)
    if verbatim:  # with the ellipsis, if there is one in the text itself
        return whole.starts[verbatim[0]], whole.ends[verbatim[1] - 1]
    if too_short(quote):
        return None
    chains = list(_occurrences(_fold(parts[0]), whole))
    for part in parts[1:]:  # each occurrence joins the nearest chain that ends before it, if that is near enough
        ends, joined = [end for _, end in chains], []
        for start, end in _occurrences(_fold(part), whole):
            nearest = bisect_right(ends, start) - 1
            if nearest >= 0 and whole.starts[start] - whole.ends[ends[nearest] - 1] <= MAX_GAP:
                joined.append((chains[nearest][0], end))
        chains = joined
    return (whole.starts[chains[0][0]], whole.ends[chains[0][1] - 1]) if chains else None


def _parts(quote: str) -> list[str]:
    """The texts between ellipses, without white space and quotation marks around them."""
    return [part for piece in _ELLIPSIS.split(quote) if (part := piece.strip(_EDGES))]


def _count_words(text: str) -> float:
    return sum(
        0.5 if _UNSPACED.match(text, start) else 1.0
        for start, end in words(text, 0, len(text))
        if any(map(str.isalnum, text[start:end]))
    )


@functools.lru_cache(maxsize=32)
def _fold(text: str) -> _Folded:
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    hyphens: list[int] = []
    breaks: list[int] = []
    last = 0
    for left_out in [*_LEFT_OUT.finditer(text), None]:
        for cluster in _CLUSTER.finditer(text, last, left_out.start() if left_out else len(text)):
            characters = _fold_cluster(cluster[0])
            if characters == " " and folded and folded[-1] == " ":
                ends[-1] = cluster.end()
                continue
            folded += characters
            starts += [cluster.start()] * len(characters)
            ends += [cluster.end()] * len(characters)
        if left_out:
            last = left_out.end()
            hyphens += [len(folded)] if left_out["break"] or left_out["hyphen"] else []
            breaks += [len(folded)] if left_out["break"] else []
    return _Folded("".join(folded), starts, ends, hyphens, frozenset(breaks))


@functools.lru_cache(maxsize=4096)
def _fold_cluster(cluster: str) -> str:
    if len(cluster) == 1:
        return _fold_character(cluster)
    return unicodedata.normalize("NFKD", "".join(map(_fold_character, cluster)))


def _fold_character(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category == "Cf" or "\ufe00" <= character <= "\ufe0f":  # invisible; variation selectors
        return ""
    parts = unicodedata.normalize("NFKD", character)
    if any(unicodedata.category(part).startswith("N") for part in parts):  # 10² is not 102
        return character
    return "".join(_PLAIN.get(part, part) for part in parts)


def _occurrences(part: _Folded, whole: _Folded) -> Iterator[CharSpan]:
    """Ranges of ``whole.text`` that hold ``part`` as whole words, with the same hyphens."""
    start = whole.text.find(part.text) if part.text else -1
    while start >= 0:
        end = start + len(part.text)
        if not (_inside(whole, start) or _inside(whole, end)) and _same_hyphens(part, whole, start, end):
            yield start, end
        start = whole.text.find(part.text, start + 1)


def _inside(whole: _Folded, i: int) -> bool:
    """Whether offset ``i`` is inside a character of the original, a word or a number."""
    text = whole.text
    if i in (0, len(text)):
        return False
    if whole.starts[i] == whole.starts[i - 1]:
        return True
    before, after = text[max(0, i - 2) : i], text[i : i + 2]
    for left, mark, right in ((before[0], before[-1], after[0]), (before[-1], after[0], after[-1])):
        if mark in "'\".,:/٫٬":  # it may join one word (can't, מע"מ) or one number (2.5, 14:30)
            joins = str.isalpha if mark in "'\"" else str.isdigit
            return joins(left) and joins(right)
    is_word = [c.isalnum() or unicodedata.category(c).startswith("M") for c in (before[-1], after[0])]
    return all(is_word) and not (_UNSPACED.match(before[-1]) or _UNSPACED.match(after[0]))


def _same_hyphens(part: _Folded, whole: _Folded, start: int, end: int) -> bool:
    """Whether both have hyphens inside words at the same places; one at a line end may be missing."""
    first, last = bisect_right(whole.hyphens, start), bisect_right(whole.hyphens, end - 1)
    there = {i - start: i in whole.breaks for i in whole.hyphens[first:last]}
    here = {i: i in part.breaks for i in part.hyphens}
    return all(there.get(i, False) or here.get(i, False) for i in there.keys() ^ here.keys())
