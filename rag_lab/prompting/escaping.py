"""Keep a source's text inside its wrapper: text that a model could read as part of the wrapper is escaped."""

import functools
import re
import unicodedata
from collections.abc import Iterable

import yaml

from rag_lab import settings

_REFERENCE = re.compile(r"&#x([0-9a-f]{2,5});")
_SIGNS = set('&<[:"')  # what a reference may encode, besides their look-alikes
# Default-ignorable characters (Unicode Standard, section 5.21) that are not in category Cf or Mn.
_IGNORABLE = "\u115f\u1160\u3164\uffa0"
_STROKES = str.maketrans("l1|0", "iiio")
_WORD_AND_SIGN = re.compile(r"(\n?)(\w+) ?([\[:])")


def escape(text: str, markers: Iterable[str], brackets: Iterable[int] = ()) -> str:
    """``text`` with the first sign of everything that reads as a marker replaced by a character reference.

    A marker is the name of a tag (``source`` escapes ``<source``, ``</source`` and the like), or a word and a sign
    (``Document [``, ``Question:``; with a line break before it, only at the start of a line). Case, white space,
    invisible characters, accents, compatibility forms and look-alikes are ignored. ``brackets``: offsets of further
    ``[``, or look-alikes of it, to escape. Nothing else changes, except ``&`` before text that looks like such a
    reference, so ``unescape`` restores the text exactly. Takes linear time.
    """
    places = {match.start() for match in _REFERENCE.finditer(text) if _referred(match) is not None} | set(brackets)
    folded, origins = _fold(text)
    for match in _pattern(tuple(markers)).finditer(folded):
        places.add(origins[match.start(match.lastindex or 0)])
    return "".join(f"&#x{ord(c):x};" if i in places else c for i, c in enumerate(text))


def unescape(text: str) -> str:
    """Undo ``escape``, for a whole text or a quote from one."""
    return _REFERENCE.sub(lambda match: _referred(match) or match[0], text)


def _referred(match: re.Match[str]) -> str | None:
    """The sign that a reference encodes; None if ``escape`` never writes this reference."""
    character = chr(int(match[1], 16))
    return character if plain_latin(character) in _SIGNS else None


def escape_field(text: str, markers: Iterable[str], in_tag: bool) -> str:
    """Escape a title, address or date, on one line. ``in_tag``: also ``& < > "``, for an attribute or element."""
    text = " ".join(text.split())
    if not in_tag:
        return escape(text, markers)
    text = escape(text.replace("&", "&amp;"), markers)
    for sign, reference in (("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("＂", "&#xff02;")):
        text = text.replace(sign, reference)
    return text


def normal(text: str) -> str:
    """Decomposed (NFKD), case folded, with plain spaces, without accents, vowel points or invisible characters.

    For matching words in any script; this drops the zero-width non-joiner of Persian too. Offsets change.
    """
    return "".join(map(_normal_character, text)).replace("\n", " ")


def plain_latin(text: str) -> str:
    """``normal``, with look-alikes of Latin letters and common signs replaced by those."""
    return "".join(map(_folded_character, text)).replace("\n", " ")


def _fold(text: str) -> tuple[str, list[int]]:
    """The text as a careless reader sees it, and the original offset of each of its characters."""
    seen = [_folded_character(character).translate(_STROKES) for character in text]
    return "".join(seen), [i for i, characters in enumerate(seen) for _ in characters]


@functools.cache
def _normal_character(character: str) -> str:
    if character in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        return "\n"
    if character.isspace():
        return " "
    parts = [part for part in unicodedata.normalize("NFKD", character) if part not in _IGNORABLE]
    return "".join(part for part in parts if unicodedata.category(part) not in ("Mn", "Me", "Cf", "Cc")).casefold()


@functools.cache
def _folded_character(character: str) -> str:
    return "".join(_look_alikes().get(part, part) for part in _normal_character(character))


@functools.cache
def _look_alikes() -> dict[str, str]:
    lists = yaml.safe_load((settings.DATA / "look_alikes.yaml").read_text(encoding="utf-8"))
    return {other: plain for plain, others in lists.items() for other in others}


@functools.cache
def _pattern(markers: tuple[str, ...]) -> re.Pattern[str]:
    """Matches markers in a folded text; the group that matched is the sign to escape.

    White space between letters matches possessively, so that hostile runs of it take linear time.
    """
    tags, patterns = [], []
    for marker in markers:
        sign = _WORD_AND_SIGN.fullmatch(marker)
        if sign:
            start = r"(?:^|(?<=\n))[ >#*_-]*+" if sign[1] else r"(?<!\w)"
            patterns.append(start + _spaced(sign[2]) + rf"\s*+({re.escape(sign[3])})")
        elif re.fullmatch(r"\w+", marker):
            tags.append(_spaced(marker))
        else:
            raise ValueError(f"The marker {marker!r} is neither a tag name nor a word followed by [ or :.")
    if tags:
        patterns.append(rf"(<)(?=[\s/!?]*+(?:{'|'.join(tags)})(?!\w))")
    return re.compile("|".join(patterns) or "(?!)")


def _spaced(word: str) -> str:
    return r"\s*+".join(map(re.escape, plain_latin(word).translate(_STROKES)))
