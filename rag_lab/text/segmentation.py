"""Split text into grapheme clusters, words, sentences, paragraphs, lines, code blocks and Markdown sections.

A splitter takes a text and the range to split, and yields spans: (start, end) character offsets into the whole text,
in order and without overlap. Only white space lies between spans; a span may also begin or end with it.
"""

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import regex

from rag_lab.text.scripts import UNSPACED
from rag_lab.types import CharSpan

_NEWLINE = re.compile(r"\r\n?|\n")
_BLANK_LINES = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*(?:\r\n?|\n)\s*|\u2029\s*")
_CLUSTER = regex.compile(r"\X")
_UNSPACED_LETTER = regex.compile(rf"[{UNSPACED}]")
# A word is a run without white space. In a script written without spaces it is one character with its marks and the
# punctuation that closes it. White space is what str.isspace says: \s of regex lacks four control characters.
_WORD = regex.compile(
    rf"(?=[{UNSPACED}])\X[\p{{Lm}}\p{{Pe}}\p{{Pf}}\p{{Po}}]*+|[\S--[\x1c-\x1f{UNSPACED}]]++", regex.V1
)


def cluster_starts(text: str) -> Sequence[int]:
    """Offsets where grapheme clusters (Unicode Standard Annex 29) start, and the length of the text."""
    if text.isascii() and "\r" not in text:
        return range(len(text) + 1)
    return [match.start() for match in _CLUSTER.finditer(text)] + [len(text)]


def clusters(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """User-perceived characters; ``start`` must be a cluster boundary."""
    return (match.span() for match in _CLUSTER.finditer(text, start, end))


def words(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Runs without white space; single characters in scripts without spaces (Chinese, Japanese, Thai …)."""
    return (match.span() for match in _WORD.finditer(text, start, end))


def lines(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Lines without their ends."""
    return _between(_NEWLINE, text, start, end)


def paragraphs(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Paragraphs, separated by blank lines."""
    return _between(_BLANK_LINES, text, start, end)


def _between(separator: re.Pattern[str], text: str, start: int, end: int) -> Iterator[CharSpan]:
    for match in separator.finditer(text, start, end):
        yield start, match.start()
        start = match.end()
    yield start, end


def strip_span(text: str, start: int, end: int) -> CharSpan:
    """The range without white space around it; empty if it is blank."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


# Sentences
# Our rules follow the sentence breaks of Unicode Standard Annex 29. pysbd 0.3.4 lost characters in 119 of 3,000
# random strings of marks, spaces and line ends, took 0.95 s for 40,000 characters and 3.6 s for 80,000, cut web
# addresses at "?", moved the quote that closes a Chinese sentence to the next one, broke at every line end, and needs
# the language (with the wrong one, ۔ and । end nothing).

_MARKS = regex.compile(
    # A run of marks, then the rest of the sentence that they end: closing quotes and brackets, emphasis, notes.
    r"(?P<marks>[.!?…．\p{SB=STerm}]++)"
    r"(?P<closing>(?:[\p{Pe}\p{Pf}\p{Cf}\"'״*_]|\p{Pi}(?=\s|\Z)|\[\d{1,4}\])*+)"
    r"(?P<gap>\s*+)",
    regex.V1,
)
_NEXT = regex.compile(r"[\p{Ps}\p{Pi}\"'*_]*+(?P<word>[\p{L}\p{M}\p{N}]*+)")
_WORD_BEFORE = regex.compile(r"[\p{L}\p{M}\p{N}.]+\Z")
_ITEM = re.compile(r"[ \t]*(?:\||(?:[-*+•]|\d{1,3}[.)]|#{1,6})[ \t])")
_HEADING_END = re.compile(r"[ \t]*(?:#{1,6}[ \t]|(?:=+|-+)[ \t]*\Z)")

# Abbreviations in lower case: those that never end a sentence, those before a number, and those that may end one.
_NEVER_LAST = re.compile(
    "adm|capt|cmdr|col|dipl|dr|fr|gen|gov|hon|hr|ing|lt|messrs|mlle|mme|mr|mrs|ms|mt|mx|pres|prof|rep|rev|sen|sgt|vs"
    r"|e\.g|i\.e|z\.b|акад|им|проф|ул"
)
_BEFORE_NUMBER = re.compile("abs|app|approx|art|ca|cap|ch|chap|eq|fig|figs|no|nos|nr|para|pp|sec|tab|tel|vol|рис|стр")
_MAYBE_LAST = re.compile(
    "al|aug|bros|bspw|bzw|cf|co|corp|dec|dept|est|etc|ext|feb|ggf|inc|inkl|jan|jr|ltd|nov|oct|resp|sept|sr|st|univ"
    "|usw|viz|" + r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}"  # U.S., e.g., Ph.D., p.m.
)
# Words that begin a sentence far more often than they follow an abbreviation.
_OPENER = re.compile(
    "after|all|and|as|at|before|both|but|by|each|every|for|he|her|here|his|how|however|if|in|it|its|later|many|most"
    "|my|no|on|our|she|since|so|some|such|that|the|their|then|there|these|they|this|those|to|under|we|what|when|where"
    "|while|who|why|with|you|your"
)


def sentences(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Sentences in any script. Blank lines, headings, list items and table rows also end a sentence."""
    for block_start, block_end in _blocks(text, start, end):
        begin = block_start
        for match in _MARKS.finditer(text, block_start, block_end):
            if match.end() < block_end and _ends_sentence(text, begin, match):
                yield begin, match.end("closing")
                begin = match.end()
        yield begin, block_end


def _blocks(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Paragraphs, headings, list items and table rows. Other line ends may be wrapped lines, so they end nothing."""
    for begin, stop in paragraphs(text, start, end):
        after_heading = False
        for line_start, line_end in lines(text, begin, stop):
            if line_start > begin and (after_heading or _ITEM.match(text, line_start, line_end)):
                yield begin, line_start
                begin = line_start
            after_heading = bool(_HEADING_END.match(text, line_start, line_end))
        yield begin, stop


def _ends_sentence(text: str, begin: int, match: regex.Match[str]) -> bool:
    """Whether the marks of ``match`` end the sentence from ``begin``; depends on a few characters on each side."""
    marks, closing, gap = match["marks"], match["closing"], match["gap"]
    following = text[match.end() : match.end() + 30]
    if _MARKS.match(following):  # "? !": the last mark decides
        return False
    next_word = _NEXT.match(following)["word"]
    if any(mark not in ".!?…" for mark in marks):  # 。 ؟ ۔ । always end a sentence (but ３．５ is a number)
        return not (marks == "．" and following[:1].isdigit())
    if not gap:  # 3.85, example.org/a?b=c; but Chinese has no space after a Western "?"
        return marks[-1] in "!?" and _UNSPACED_LETTER.match(following) is not None
    if next_word[:1].islower():  # "Stop!" he said; e.g. this; wait... what
        return marks[-1] in "!?" and not closing
    if marks != "." or closing:
        return True
    # A window keeps the time linear for a sentence with many full stops.
    window = text[max(begin, match.start() - 30) : match.start()]
    before = _WORD_BEFORE.search(window)
    word = before[0] if before else ""
    return not _is_abbreviation(word, next_word, window.strip() == word)


def _is_abbreviation(word: str, next_word: str, is_first: bool) -> bool:
    """Whether the full stop belongs to ``word`` before it."""
    word_lower = word.lower()
    is_initial = len(word) == 1 and word.isalpha() and word != "I"  # J. R. R. Tolkien, z. B.
    is_item_number = is_first and word.isdigit() and len(word) <= 3  # 1. First item
    if is_initial or is_item_number or _NEVER_LAST.fullmatch(word_lower):
        return True
    if _BEFORE_NUMBER.fullmatch(word_lower):
        return next_word[:1].isdigit()
    return _MAYBE_LAST.fullmatch(word_lower) is not None and not _OPENER.fullmatch(next_word.lower())


# Markdown sections


class Heading(NamedTuple):
    """A Markdown heading: start of its first line, end of its last line, level (1 to 6) and plain text."""

    start: int
    end: int
    level: int
    text: str


class Section(NamedTuple):
    """A part of a text up to the next heading, and the headings above it, outermost first."""

    start: int
    end: int
    path: tuple[str, ...]


_MAYBE_HEADING = re.compile(r"^ {0,3}(?:#{1,6}(?:\s|$)|(?:=+|-+)[ \t]*\r?$)", re.MULTILINE)


def headings(text: str) -> list[Heading]:
    """ATX (``# Title``) and setext (underlined) headings as CommonMark has them, so none in fenced code or lists."""
    if not _MAYBE_HEADING.search(text):
        return []
    from markdown_it import MarkdownIt

    inline_parser = MarkdownIt("commonmark")
    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    starts = [0, *(match.end() for match in _NEWLINE.finditer(text)), len(text)]
    found = []
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            first, last = opening.map
            parts = inline_parser.parseInline(inline.content)[0].children or []
            plain = "".join(" " if part.type.endswith("break") else part.content for part in parts)
            found.append(Heading(starts[first], starts[last], int(opening.tag[1]), plain.strip()))
    return found


def sections(text: str) -> list[Section]:
    """Sections in order; they cover the text. A heading directly before a deeper heading joins that section."""
    found: list[Section] = []
    above: list[Heading] = []
    path: tuple[str, ...] = ()
    begin = last_end = 0
    for heading in headings(text):
        deeper = not above or heading.level > above[-1].level
        if text[last_end : heading.start].strip() or not deeper:
            found.append(Section(begin, heading.start, path))
            begin = heading.start
        above = [*(higher for higher in above if higher.level < heading.level), heading]
        path, last_end = tuple(higher.text for higher in above if higher.text), heading.end
    return [*found, Section(begin, len(text), path)]


# Code


def code_blocks(text: str, start: int, end: int, inside: bool = False) -> Iterator[CharSpan]:
    """Python functions and classes with their decorators and comments above, and the code between them.

    ``inside``: if the range is one function or class, split its body. In text that is not Python, a block starts at a
    line that follows a blank line, is not indented, and does not begin with a closing bracket.
    """
    offsets = [start, *(match.end() for match in _NEWLINE.finditer(text, start, end)), end]
    source_lines = [text[a:b] for a, b in pairwise(offsets)]
    cuts = _python_cuts(source_lines, inside)
    if cuts is None:
        following = enumerate(pairwise(source_lines), 1)
        cuts = [n for n, (above, line) in following if not above.strip() and re.match(r"[^\s)\]}]", line)]
    bounds = [0, *cuts, len(source_lines)]
    return ((offsets[a], offsets[b]) for a, b in pairwise(bounds) if a < b)


def _python_cuts(source_lines: list[str], inside: bool) -> list[int] | None:
    """Numbers (from 0) of the lines where a definition starts or that follow one; None if this is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the source
            body: list[ast.stmt] = ast.parse(textwrap.dedent("".join(source_lines))).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    if inside and len(body) == 1 and isinstance(body[0], definition):
        body = body[0].body
    cuts: list[int] = []
    for node in body:
        if isinstance(node, definition):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            while first > (cuts[-1] if cuts else 0) and source_lines[first - 1].lstrip().startswith("#"):
                first -= 1
            cuts += [first, node.end_lineno or first + 1]
    return cuts
