"""Citation markers in an answer, found while it is being written: [S1], [S1, S3], [S1–S3], (S1)."""

from dataclasses import dataclass

import regex

from rag_lab.types import CharSpan

MAX_MARKER = 120  # characters: a longer bracket is text
MAX_RANGE = 100  # ids: of a wider range only the two ends are cited

_SQUARE = ("[［【〔", "]］】〕")
_ROUND = ("(（", ")）")
# Bidirectional marks stand inside brackets of right-to-left texts.
_SPACE = r"[\p{Zs}\t\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]"
_GAP = _SPACE + "{0,8}+"
# Digits of the newest scripts are known to regex before Python can read them: none of those beyond U+FFFF is taken.
_DIGIT = r"(?:(?![\U00010000-\U0010ffff])\d)"
_ID = rf"[SsＳｓ]{_GAP}{_DIGIT}{{1,6}}"
_TO = rf"{_GAP}[-‐‑‒–—−~～〜]{_GAP}"
_AND = rf"{_GAP}(?:[,，،、;；؛/&+]{_GAP}(?:(?:and|und|и|و|ו-?|和){_GAP})?|(?:and|und|и|و|ו-?|和){_GAP})"
# The S may be left out after the first id: [S1–3], [S1, 3]. More than three digits are then a year or an amount.
_NUMBER = rf"(?:{_ID}|{_DIGIT}{{1,3}}(?!\d))"
_UP_TO = rf"(?:{_TO}{_NUMBER})?"
_LIST = rf"{_ID}{_UP_TO}(?:(?:{_AND}{_NUMBER}|{_SPACE}{{1,8}}+{_ID}){_UP_TO})*"
_MARKER = regex.compile(
    "|".join(rf"[{regex.escape(a)}]{_GAP}{_LIST}{_GAP}[{regex.escape(b)}]" for a, b in (_SQUARE, _ROUND))
)
_CITED = regex.compile(rf"({_DIGIT}+)(?:{_TO}[SsＳｓ]?{_GAP}({_DIGIT}+))?")

# What makes the bracket before it something else: a link, an assignment; where a line begins, a link's definition.
_NOT_AFTER = regex.compile(r"[(=]")
_NOT_AFTER_AT_LINE_START = regex.compile(r"[(=]|:[ \t]{0,3}(?:[</#]|https?:|www\.|mailto:)")
# What makes the bracket after it an index or a call: x[, row_ids[, f()[, and names that no prose ends in; "5 g[" ends
# in a unit. After a closing bracket come the second index of an array and the label or the address of a link.
_NOT_BEFORE = regex.compile(
    r"(?r)(?:(?<![\w'’-])(?<!\d\s)(?:[a-z]|args?|argv|kwargs|arr|buf|df|idx|lst|ptr|tmp|vec|xs)|[A-Za-z0-9]_[A-Za-z0-9]+"
    r"|\(\)|[]］])\Z"
)
_CONTEXT = 40  # characters before a bracket that are looked at

_OPENING = regex.escape(_SQUARE[0] + _ROUND[0])
_MAY_FOLLOW = rf"{_GAP}(?:\Z|[SsＳｓ]{_GAP}(?:\Z|\d))"
_TOKEN = regex.compile(
    rf"(?P<bracket>[{_OPENING}](?={_MAY_FOLLOW}))|(?P<line_end>\n)|(?P<run>`++|~++)"
    rf"|(?P<text>(?:[^{_OPENING}\n`~]|[{_OPENING}](?!{_MAY_FOLLOW}))++)"
)


@dataclass(frozen=True)
class Text:
    """A piece of an answer that is no citation."""

    text: str


@dataclass(frozen=True)
class Citation:
    """A marker: ``answer[start:end] == text``, and the source ids it cites, each once ("[s1, S3]": S1 and S3)."""

    start: int
    end: int
    text: str
    ids: tuple[str, ...]


MarkerEvent = Text | Citation
_Run = tuple[str, int]  # a backtick or tilde, how many of it; 0: there is none


class MarkerScanner:
    """Reads an answer in pieces cut anywhere and returns text and citations in order.

    Every decision is made from what came before and a few characters behind, so the cuts make no difference and the
    work is linear. Markers are ignored in fenced code and in inline code, which ends with its line where a backtick
    is never closed; indented lines are not taken for code. ``citations``, and ``fences`` (ranges of fenced code with
    its fences), are complete after ``close``.
    """

    def __init__(self) -> None:
        self.citations: list[Citation] = []
        self.fences: list[CharSpan] = []
        self.held = ""  # fed and not returned: the beginning of a marker, or a marker that may turn out to be a link
        self._events: list[MarkerEvent] = []
        self._out: list[str] = []  # text that is certain, not yet an event
        self._at = 0  # how much of the answer is certain
        self._context = ""  # the end of it
        self._line_blank = True  # nothing but white space on this line so far
        self._run: _Run = ("", 0)  # backticks or tildes that may go on
        self._run_opens_line = False
        self._run_in_word = False
        self._inline: _Run = ("", 0)  # what opened code on this line
        self._may_be_fence = False  # whether that code is fenced if the line ends before it does
        self._fence: _Run = ("", 0)  # what opened fenced code
        self._code_start = 0

    def feed(self, delta: str) -> list[MarkerEvent]:
        """Text and citations that are certain now."""
        return self._scan(self.held + delta, final=False)

    def close(self) -> list[MarkerEvent]:
        """What was held back: nothing more will come."""
        events = self._scan(self.held, final=True)
        self._end_run("")
        if self._fence[1] or (self._inline[1] and self._may_be_fence):
            self.fences.append((self._code_start, self._at))
        return events

    def _scan(self, text: str, final: bool) -> list[MarkerEvent]:
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            kind, end = token.lastgroup, token.end()
            if text[position] != self._run[0]:
                self._end_run(text[position])
            if kind == "bracket" and not (self._inline[1] or self._fence[1] or _NOT_BEFORE.search(self._context)):
                found = self._read_bracket(text, position, final)
                if found is None:
                    break
                end, is_marker = found
                if is_marker:
                    self._cite(text[position:end])
                    position = end
                    continue
            elif kind == "line_end":
                self._end_line()
            elif kind == "run":
                self._read_run(token[0])
            self._write(text[position:end])
            position = end
        self.held = text[position:]
        self._flush()
        events, self._events = self._events, []
        return events

    def _read_bracket(self, text: str, position: int, final: bool) -> tuple[int, bool] | None:
        """Where the bracket at ``position`` is settled up to, and whether it is a marker; None if more is needed."""
        more = not final and len(text) - position < MAX_MARKER  # whether what may come could make a marker
        marker = _MARKER.match(text, position, position + MAX_MARKER, partial=more)
        if not marker:
            return position + 1, False
        if marker.partial:
            return None
        if text[position] == "[":
            pattern = _NOT_AFTER_AT_LINE_START if self._line_blank else _NOT_AFTER
            behind = pattern.match(text, marker.end(), partial=not final)
            if behind:
                return None if behind.partial else (marker.end(), False)
        return marker.end(), True

    def _cite(self, marker: str) -> None:
        self._flush()
        self.citations.append(Citation(self._at, self._at + len(marker), marker, _cited_ids(marker)))
        self._events.append(self.citations[-1])
        self._at += len(marker)
        self._context, self._line_blank = "", False

    def _write(self, text: str) -> None:
        self._out.append(text)
        self._at += len(text)
        self._context = (self._context + text)[-_CONTEXT:]
        self._line_blank = text == "\n" or (self._line_blank and text.isspace())

    def _flush(self) -> None:
        if self._out:
            self._events.append(Text("".join(self._out)))
            self._out = []

    def _read_run(self, run: str) -> None:
        if not self._run[1]:
            self._run_opens_line = self._line_blank
            # Han and Kana come after U+2E80: text in them has no space before code.
            self._run_in_word = self._context[-1:].isalpha() and self._context[-1:] < "\u2e80"
        self._run = (run[0], self._run[1] + len(run))

    def _end_run(self, following: str) -> None:
        """Backticks or tildes, if there are any, have ended: they open code, close it, or mean nothing."""
        (mark, length), self._run = self._run, ("", 0)
        may_be_fence = length >= 3 and self._run_opens_line
        if not length:
            return
        if self._fence[1]:
            if (
                (mark, True) == (self._fence[0], may_be_fence)
                and length >= self._fence[1]
                and not following.isalnum()
            ):
                self.fences.append((self._code_start, self._at))
                self._fence = ("", 0)
        elif self._inline[1]:
            if (mark, length) == self._inline:
                self._inline = ("", 0)
        elif mark == "~":
            if may_be_fence:
                self._fence, self._code_start = (mark, length), self._at - length
        elif may_be_fence or not self._run_in_word:  # "Sana`a" opens nothing
            self._inline, self._may_be_fence, self._code_start = (mark, length), may_be_fence, self._at - length

    def _end_line(self) -> None:
        if self._may_be_fence and self._inline[1]:
            self._fence = self._inline
        self._inline = ("", 0)


def find_citations(answer: str) -> list[Citation]:
    """The markers of a whole answer, in order (see ``MarkerScanner``)."""
    scanner = MarkerScanner()
    scanner.feed(answer)
    scanner.close()
    return scanner.citations


def _cited_ids(marker: str) -> tuple[str, ...]:
    ids: dict[str, None] = {}
    for match in _CITED.finditer(marker):
        first, last = int(match[1]), int(match[2] or match[1])
        wide = abs(last - first) >= MAX_RANGE
        numbers = [first, last] if wide else range(min(first, last), max(first, last) + 1)
        ids |= dict.fromkeys(f"S{number}" for number in numbers)
    return tuple(ids)
