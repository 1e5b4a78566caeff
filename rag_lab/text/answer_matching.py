"""Answers judged as SQuAD and "Lost in the Middle" judge them: normalised text, one inside the other."""

import unicodedata
from collections.abc import Iterable, Sequence

import regex

from rag_lab.text.numbers import find_numbers, unsupported_numbers
from rag_lab.text.scripts import UNSPACED

_ARTICLE = regex.compile(r"\b(?:a|an|the)\b")
_UNSEEN = regex.compile(r"[\p{Mn}\p{Cf}ـ]")  # marks, invisible characters, and the stroke that stretches Arabic words
# Variants of a letter that no decomposition makes one.
_VARIANTS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "ي": "ی", "ك": "ک"}
)
_GROUPED = regex.compile(r"(?<=\d)[,٬'’](?=\d{3}(?!\d))")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")  # punctuation to Python and so to SQuAD, symbols to Unicode
# Written for the marks inside a number and its minus, which SQuAD's normalisation would drop: 15 of 1.5, 5 of -5.
_NUMBER_MARK = "\ue000"
_IN_NUMBER = regex.compile(r"(?<=\d)[.,:/٫٬](?=\d)|(?<![^\s(\[])[-−](?=\d)")
_WORD = rf"[[\w{_NUMBER_MARK}]--[{UNSPACED}]]"


def normalise(text: str) -> str:
    """Lower case, no punctuation, no English articles, single spaces: SQuAD's normalisation (Rajpurkar et al. 2016).

    On ASCII text it is SQuAD's own, character for character. Beyond it, compatibility forms are made one (NFKC), case
    is folded, and punctuation of every script goes; accents and other marks stay.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = "".join(c for c in text if c not in _ASCII_SYMBOLS and not unicodedata.category(c).startswith("P"))
    return " ".join(_ARTICLE.sub(" ", text).split())


def first_line(answer: str) -> str:
    """The answer up to its first line break, which is what Liu et al. judge: a copied context is no answer."""
    return answer.split("\n", 1)[0].strip()


def best_subspan_em(answer: str, accepted: Iterable[str]) -> float:
    """1.0 where an accepted answer stands in the first line of ``answer``, both normalised; else 0.0.

    Liu et al. 2023 (arXiv 2307.03172), section 2.2. An accepted answer of which normalising leaves nothing ("The",
    "?") is compared as it is. ValueError where there is no accepted answer.
    """
    accepted = (accepted,) if isinstance(accepted, str) else tuple(accepted)
    if not accepted:
        raise ValueError("there is no accepted answer to look for; give the texts that count as right.")
    line = first_line(answer)
    normalised = normalise(line)
    return float(any(n in normalised if (n := normalise(text)) else text in line for text in accepted))


def holds_answer(text: str, accepted: Iterable[str]) -> bool:
    """Whether ``text`` holds an accepted answer under any spelling: what a distractor must not do.

    Broader than ``best_subspan_em``: accents, letters with a stroke, invisible characters and white space are nothing
    (so a hyphen is like a space), 1,905 is 1905, and a number is held by an equal one in words or other digits:
    "fourteen" for 14, "39 Steps" for "The Thirty-Nine Steps".
    """
    accepted = tuple(accepted)
    plain = _plain(text)
    if any(n in plain for answer in accepted if (n := _plain(answer))):
        return True
    numeric = [answer for answer in accepted if find_numbers(answer)]
    if not numeric:
        return False
    wanted = {value for answer in numeric for value in _number(answer)}
    if wanted and any(wanted & number.values for number in find_numbers(text)):
        return True
    plain = _plain(_in_digits(text))
    return any(_plain(_in_digits(answer)) in plain for answer in numeric if not _number(answer))


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether ``text`` holds one of the accepted ``answers``.

    Held is an answer whose words stand in the text in a row, both normalised as in SQuAD (Rajpurkar et al. 2016: no
    case, punctuation or articles); whole words, where SQuAD-style containment (Liu et al. 2023) also takes "no" in
    "know" and 28 in 1284. Numbers count by value: 28 days = twenty-eight days, 1,000 = ۱۰۰۰ (see
    ``unsupported_numbers``); what else the answer says must stand in the text. ValueError for no or blank answers,
    and for a bare string, whose letters would each be one. An answer of which normalisation leaves nothing (the
    grade "A", "+") counts as it is written, as whole words.
    """
    if isinstance(answers, str) or not answers or not all(map(str.strip, answers)):
        raise ValueError(f"the accepted answers are {answers!r}; give a list of one or more that are not blank.")
    whole = _with_number_marks(text)
    return any(
        (
            _contains_words(part, whole)
            if (part := _with_number_marks(answer))
            else _contains_words(answer.strip(), text)
        )
        or _contains_numbers(answer, text, whole)
        for answer in answers
    )


def _plain(text: str) -> str:
    # Marks go last: an accented À is a word, an article is none.
    text = unicodedata.normalize("NFKD", normalise(_GROUPED.sub("", text)))
    return _UNSEEN.sub("", text).translate(_VARIANTS).replace(" ", "")


def _in_digits(text: str) -> str:
    """The text with each number of one meaning as its value and unit: 39 for thirty-nine, "5 percent" for 5%."""
    parts, end = [], 0
    for number in find_numbers(text):
        if number.kind == "number" and len(number.values) == 1:
            (value,) = number.values
            parts += [text[end : number.start], f" {value} {number.unit} "]
            end = number.end
    return "".join([*parts, text[end:]])


def _number(answer: str) -> frozenset:
    """The values of an answer that is one number and nothing else (a unit aside); none of any other answer."""
    found = find_numbers(answer)
    if len(found) == 1 and found[0].text.strip() == answer.strip():
        return frozenset(found[0].values)
    return frozenset()


def _with_number_marks(text: str) -> str:
    return normalise(_IN_NUMBER.sub(_NUMBER_MARK, unicodedata.normalize("NFKC", text)))


def _contains_words(part: str, whole: str) -> bool:
    """Whether ``part`` stands in ``whole`` as whole words; Hebrew ones may have their prefixes before them."""
    if not part:
        return False
    before, after = (rf"(?<!{_WORD})", rf"(?!{_WORD})")
    if regex.match(r"\p{Hebrew}", part):
        before += "[ובהכלמש]{0,2}"
    if regex.match(f"[{UNSPACED}]", part):
        before = ""
    if regex.match(f"[{UNSPACED}]", part[-1]):
        after = ""
    return regex.search(before + regex.escape(part) + after, whole, regex.V1) is not None


def _contains_numbers(answer: str, text: str, whole: str) -> bool:
    """Whether the text holds all numbers of an answer, and the words between them."""
    numbers = [number for number in find_numbers(answer) if number.unit or not number.weak]
    if not numbers or unsupported_numbers(answer, text):
        return False
    words, last = [], 0
    for number in numbers:
        words.append(answer[last : number.start])
        last = number.end
    normal = filter(None, map(_with_number_marks, [*words, answer[last:]]))
    return all(_contains_words(part, whole) for part in normal)
