"""Find citation markers in an answer while it is being written: [S1], [S1, S3], [S1–S3], (S1)."""

from dataclasses import dataclass
from typing import Literal

import regex

from rag_lab.types import CharSpan

MAX_MARKER = 120  # characters; a longer bracket is text
MAX_RANGE = 100  # ids; a wider range cites only its two ends

_SQUARE = ("[［【〔", "]］】〕")
_ROUND = ("(（", ")）")
# Right-to-left texts have bidirectional marks inside brackets.
_SPACE = r"[\p{Zs}\t\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]"
_GAP = _SPACE + "{0,8}+"
# regex knows digits of new scripts that Python cannot read yet, so digits beyond U+FFFF do not count.
_DIGIT = r"(?:(?![\U00010000-\U0010ffff])\d)"
_ID = rf"[SsＳｓ]{_GAP}{_DIGIT}{{1,6}}"
_TO = rf"{_GAP}[-‐‑‒–—−~～〜]{_GAP}"
_AND = rf"{_GAP}(?:[,，،、;；؛/&+]{_GAP}(?:(?:and|und|и|و|ו-?|和){_GAP})?|(?:and|und|и|و|ו-?|和){_GAP})"
# The S may be left out after the first id: [S1–3], [S1, 3]. More than three digits are a year or an amount.
_NUMBER = rf"(?:{_ID}|{_DIGIT}{{1,3}}(?!\d))"
_UP_TO = rf"(?:{_TO}{_NUMBER})?"
_LIST = rf"{_ID}{_UP_TO}(?:(?:{_AND}{_NUMBER}|{_SPACE}{{1,8}}+{_ID}){_UP_TO})*"
_MARKER = regex.compile(
    "|".join(rf"[{regex.escape(a)}]{_GAP}{_LIST}{_GAP}[{regex.escape(b)}]" for a, b in (_SQUARE, _ROUND))
)
_CITED = regex.compile(rf"({_DIGIT}+)(?:{_TO}[SsＳｓ]?{_GAP}({_DIGIT}+))?")

# After a bracket these show that it is a link or an assignment; at the start of a line, also a link's definition.
_NOT_AFTER = regex.compile(r"[(=]")
_NOT_AFTER_AT_LINE_START = regex.compile(r"[(=]|:[ \t]{0,3}(?:[</#]|https?:|www\.|mailto:)")
# Before a bracket these show that it is an index or a call: x[, row_ids[, f()[, and names that end no prose ("5 g["
# ends in a unit). After a closing bracket comes the second index of an array, or the label or address of a link.
_NOT_BEFORE = regex.compile(
    r"(?r)(?:(?<![\w'’-])(?<!\d\s)(?:[a-z]|args?|argv|kwargs|arr|buf|df|idx|lst|ptr|tmp|vec|xs)|[A-Za-z0-9]_[A-Za-z0-9]+"
    r"|\(\)|[]］])\Z"
)
_CONTEXT = 40  # characters before a bracket that are examined

_OPENING = regex.escape(_SQUARE[0] + _ROUND[0])
_MAY_FOLLOW = rf"{_GAP}(?:\Z|[SsＳｓ]{_GAP}(?:\Z|\d))"
_TOKEN = regex.compile(
    rf"(?P<bracket>[{_OPENING}](?={_MAY_FOLLOW}))|(?P<line_end>\n)|(?P<run>`++|~++)"
    rf"|(?P<text>(?:[^{_OPENING}\n`~]|[{_OPENING}](?!{_MAY_FOLLOW}))++)"
)


@dataclass(frozen=True)
class TextDelta:
    """A stretch of an answer without citations."""

    text: str


@dataclass(frozen=True)
class Citation:
    """A marker: ``answer[start:end] == text``, and the source ids it cites, each once ("[s1, S3]": S1 and S3)."""

    start: int
    end: int
    text: str
    ids: tuple[str, ...]


MarkerEvent = TextDelta | Citation


@dataclass
class _Run:
    """Backticks or tildes in a row: more may follow, or it opened the code that is open."""

    mark: str
    start: int
    opens_line: bool
    in_word: bool
    length: int = 0
    fenced: Literal["no", "maybe", "yes"] = "no"  # of open code; "maybe": unless it closes on its line


class MarkerScanner:
    """Reads an answer in deltas of any length; returns text and citations in order.

    Each decision depends on the text before and a few characters after, so deltas of any length give the same result
    in linear time. Ignores markers in fenced code and in inline code; inline code that is not closed ends with its
    line. Indented lines are not code. ``citations`` and ``fences`` (ranges of fenced code with its fences) are
    complete after ``close``. ``held`` is text that may become a marker, or a marker that may turn out to be a link.
    """

    def __init__(self) -> None:
        self.citations: list[Citation] = []
        self.fences: list[CharSpan] = []
        self.held = ""
        # The state after the text that is certain.
        self._length = 0
        self._context = ""  # its last characters
        self._line_blank = True  # only white space on this line so far
        self._run: _Run | None = None
        self._code: _Run | None = None

    def feed(self, delta: str) -> list[MarkerEvent]:
        """Text and citations that are certain now."""
        return self._scan(self.held + delta, final=False)

    def close(self) -> list[MarkerEvent]:
        """The events of ``held``; the answer is complete."""
        events = self._scan(self.held, final=True)
        self._end_run("")
        if self._code and self._code.fenced != "no":
            self.fences.append((self._code.start, self._length))
        return events

    def _scan(self, text: str, final: bool) -> list[MarkerEvent]:
        events: list[MarkerEvent] = []
        position = emitted = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            end, is_marker = token.end(), False
            if self._run and text[position] != self._run.mark:
                self._end_run(text[position])
            if token.lastgroup == "bracket" and not (self._code or _NOT_BEFORE.search(self._context)):
                end, is_marker = self._read_bracket(text, position, final)
                if end is None:
                    break
            elif token.lastgroup == "line_end":
                self._end_line()
            elif token.lastgroup == "run":
                self._extend_run(token[0])
            read = text[position:end]
            if is_marker:
                self.citations.append(Citation(self._length, self._length + len(read), read, _cited_ids(read)))
                events += [TextDelta(text[emitted:position])] if emitted < position else []
                events.append(self.citations[-1])
                emitted = end
            self._length += len(read)
            self._context = "" if is_marker else (self._context + read)[-_CONTEXT:]
            self._line_blank = read == "\n" or (self._line_blank and read.isspace())
            position = end
        if emitted < position:
            events.append(TextDelta(text[emitted:position]))
        self.held = text[position:]
        return events

    def _read_bracket(self, text: str, position: int, final: bool) -> tuple[int | None, bool]:
        """Up to where the bracket at ``position`` is decided (None if more text is needed), and whether a marker."""
        may_grow = not final and len(text) - position < MAX_MARKER
        marker = _MARKER.match(text, position, position + MAX_MARKER, partial=may_grow)
        if not marker:
            return position + 1, False
        if marker.partial:
            return None, False
        if text[position] == "[":
            pattern = _NOT_AFTER_AT_LINE_START if self._line_blank else _NOT_AFTER
            after = pattern.match(text, marker.end(), partial=not final)
            if after:
                return None if after.partial else marker.end(), False
        return marker.end(), True

    def _extend_run(self, run: str) -> None:
        if self._run is None:
            # Han and Kana come after U+2E80: their texts have no space before code.
            in_word = self._context[-1:].isalpha() and self._context[-1:] < "\u2e80"
            self._run = _Run(run[0], self._length, self._line_blank, in_word)
        self._run.length += len(run)

    def _end_run(self, following: str) -> None:
        """If backticks or tildes have ended before ``following``: they open code, close it, or mean nothing."""
        run, code = self._run, self._code
        self._run = None
        if run is None:
            return
        may_be_fence = run.length >= 3 and run.opens_line
        if code is None:
            if may_be_fence:
                run.fenced = "yes" if run.mark == "~" else "maybe"
            if may_be_fence or (run.mark == "`" and not run.in_word):  # "Sana`a" opens nothing
                self._code = run
        elif run.mark == code.mark and code.fenced == "yes":
            if may_be_fence and run.length >= code.length and not following.isalnum():
                self.fences.append((code.start, self._length))
                self._code = None
        elif (run.mark, run.length) == (code.mark, code.length):
            self._code = None

    def _end_line(self) -> None:
        if self._code and self._code.fenced == "maybe":
            self._code.fenced = "yes"
        elif self._code and self._code.fenced == "no":
            self._code = None


def find_citations(answer: str) -> list[Citation]:
    """The markers of a complete answer, in order (see ``MarkerScanner``)."""
    scanner = MarkerScanner()
    scanner.feed(answer)
    scanner.close()
    return scanner.citations


def _cited_ids(marker: str) -> tuple[str, ...]:
    ids: list[int] = []
    for match in _CITED.finditer(marker):
        first, last = int(match[1]), int(match[2] or match[1])
        ids += [first, last] if abs(last - first) >= MAX_RANGE else range(min(first, last), max(first, last) + 1)
    return tuple(f"S{number}" for number in dict.fromkeys(ids))
