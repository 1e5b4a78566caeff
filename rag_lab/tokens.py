"""Terms for BM25 from text in any script, and from code."""

import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Any

import regex

# Lucene's EnglishAnalyzer drops these 33.
_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
    "this to was will with"
)
ENGLISH_STOP_WORDS = frozenset(_WORDS.split())

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_RUN = regex.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_START = regex.compile(rf"[{_UNSPACED}]")
_TOKEN = regex.compile(r"\d+(?:[.,]\d+)+|\w+")  # this \w holds combining marks and the ZWNJ, unlike that of ``re``
# Where an identifier, a decimal number or a Persian compound comes apart: get|HTTP|Server, max_|size, 3.|85.
_JOINT = regex.compile(r"(?V1)(?<=\p{Ll})(?=\p{Lu})|(?<=[\p{Lu}\d])(?=\p{Lu}\p{Ll}{2})|[_.,\u200c]+")
_POSSESSIVE = regex.compile(r"['’]s\b", regex.IGNORECASE)
_GROUPING = regex.compile(r"(?<=\d)[,٬](?=\d{3}(?!\d))")
_HEBREW_QUOTE = regex.compile(r"(?<=\p{Hebrew})[\"'’״׳](?=\p{Hebrew})")
# Niqqud, harakat, hamza and madda; variation selectors; characters that only format, but for the ZWNJ.
_UNSEEN = regex.compile(
    r"(?V1)[[\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\ufb1e]&&\p{Mn}]"
    r"|[\ufe00-\ufe0f\u20e3]|[\p{Cf}--\u200c]"
)
_DIGIT = regex.compile(r"(?V1)[\p{Nd}--0-9]")
_FOLD = str.maketrans({"ی": "ي", "ى": "ي", "ک": "ك", "ة": "ه", "ە": "ه", "ـ": None, "٫": ".", "ё": "е", "Ё": "Е"})


def tokenize(
    text: str, stem: str | None = None, stop_words: frozenset[str] = frozenset(), query: bool = False
) -> list[str]:
    """The terms of a text, in order, case folded.

    What writers of one language spell in two ways is folded: compatibility forms (NFKC), digits of all scripts,
    commas that group digits, Hebrew points, Arabic harakat, hamza carriers and the two forms of yeh and kaf (in
    Lucene's direction), Russian ё. Identifiers (camelCase, snake_case), decimal numbers and Persian words with a
    ZWNJ give their parts and the whole, so that either finds them.

    Scripts without spaces (and Korean, whose particles are attached) are cut into overlapping pairs of characters,
    which stand for words without needing a dictionary of them; single characters match far too much. A text to be
    indexed gives its single characters too, for a ``query`` of one character; other queries ask for pairs only.

    ``stop_words`` are dropped before stemming; ``stem`` names a Snowball stemmer ("english", "porter", "russian",
    …). ImportError where PyStemmer is needed and absent, ValueError for a stemmer that it does not have.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", unicodedata.normalize("NFKD", text)))
        text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text.translate(_FOLD))
        text = _HEBREW_QUOTE.sub("", text)
    text = _GROUPING.sub("", _POSSESSIVE.sub("", text))
    terms: list[str] = []
    for token in _TOKEN.findall(text):
        if token.isascii():
            terms += _terms(token, stem, stop_words)
            continue
        for run in _RUN.findall(token):
            if _UNSPACED_START.match(run):
                terms += [] if query and len(run) > 1 else run
                terms += map("".join, pairwise(run))
            else:
                terms += _terms(run, stem, stop_words)
    return terms


@lru_cache(1 << 17)
def _terms(token: str, stem: str | None, stop_words: frozenset[str]) -> tuple[str, ...]:
    """The parts of a token, if it has several of two characters or more, and the token itself: folded, stemmed."""
    if not any(map(str.isalnum, token)):
        return ()
    parts = [part for part in _JOINT.split(token) if part]
    whole = token.replace("\u200c", "").casefold()
    words = [part.casefold() for part in parts if len(part) > 1 and part != token]
    words = [word for word in [*words, whole] if word not in stop_words]
    if stem is None:
        return tuple(words)
    return tuple(_stemmer(stem).stemWords(words))


def _stemmer(name: str) -> Any:
    """A new stemmer: they are cheap to make, and one must not be shared by threads."""
    try:
        import Stemmer
    except ImportError as error:
        raise ImportError("stemming needs PyStemmer: pip install PyStemmer, or leave stem=None.") from error
    if name not in Stemmer.algorithms():
        raise ValueError(f"there is no stemmer {name!r}; there are: {', '.join(Stemmer.algorithms())}.")
    return Stemmer.Stemmer(name)
