"""Match answers with accepted answers, as SQuAD and "Lost in the Middle" do and more strictly or broadly."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import regex

from rag_lab.text.numbers import find_numbers, unsupported_numbers
from rag_lab.text.scripts import UNSPACED
from rag_lab.text.thinking import split_thinking

_ARTICLE = regex.compile(r"\b(?:a|an|the)\b")
_UNSEEN = regex.compile(r"[\p{Mn}\p{Cf}ـ]")  # marks, invisible characters, and the Arabic stretching stroke
# Letter variants that Unicode does not decompose.
_VARIANTS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "ي": "ی", "ك": "ک"}
)
_GROUPED = regex.compile(r"(?<=\d)[,٬'’](?=\d{3}(?!\d))")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")  # punctuation for Python and so for SQuAD, symbols for Unicode
# Replaces the marks inside a number and its minus, which SQuAD's normalisation would drop (1.5 is not 15, -5 not 5).
_NUMBER_MARK = "\ue000"
_IN_NUMBER = regex.compile(
    r"(?<=\d)[.,:/٫٬⁄](?=\d)|(?<![^\s(\[])[-−](?=\d)|(?<![\w.])[.٫](?=\d)"
    r"|(?<=(?<!\d)\d{1,3}(?:[ '’]\d{3})*)[ '’](?=\d{3}(?!\d))"
)
_BEFORE_RAISED = regex.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹⁺⁻¼-¾⅐-⅞])")  # compatibility forms would join the number
_WORD = rf"[[\w{_NUMBER_MARK}]--[{UNSPACED}]]"


def normalise(text: str) -> str:
    """SQuAD's normalisation (Rajpurkar et al. 2016): lower case, no punctuation or English articles, single spaces.

    Equals SQuAD's on ASCII text. Beyond ASCII it unifies compatibility forms (NFKC), folds case and drops punctuation
    of every script; accents and other marks stay.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = "".join(c for c in text if c not in _ASCII_SYMBOLS and not unicodedata.category(c).startswith("P"))
    return " ".join(_ARTICLE.sub(" ", text).split())


def first_line(answer: str) -> str:
    """The answer, after any thoughts, up to its first line break; Liu et al. judge no more, since models copy on."""
    return split_thinking(answer)[1].split("\n", 1)[0].strip()


def best_subspan_em(answer: str, accepted: Iterable[str]) -> float:
    """1.0 if the first line of ``answer`` contains an accepted answer, both normalised; else 0.0.

    Liu et al. 2023 (arXiv 2307.03172), section 2.2. An accepted answer that normalisation empties ("The", "?") is
    compared unchanged. Raises ValueError if there is no accepted answer.
    """
    accepted = (accepted,) if isinstance(accepted, str) else tuple(accepted)
    if not accepted:
        raise ValueError("there is no accepted answer; give the texts that count as correct.")
    line = first_line(answer)
    normalised = normalise(line)
    return float(any(n in normalised if (n := normalise(text)) else text in line for text in accepted))


def mentions_answer(text: str, accepted: Iterable[str]) -> bool:
    """Whether ``text`` has an accepted answer in any spelling; a distractor must not.

    Broader than ``best_subspan_em``: ignores accents, strokes through letters, invisible characters and white space
    (so a hyphen equals a space). Numbers match by value, in words or other digits: 1,905 and 1905, "fourteen" and 14,
    "39 Steps" and "The Thirty-Nine Steps".
    """
    accepted = tuple(accepted)
    plain = _plain(text)
    if any(n in plain for answer in accepted if (n := _plain(answer))):
        return True
    numeric = {answer: _number(answer) for answer in accepted if find_numbers(answer)}
    if not numeric:
        return False
    wanted = frozenset[Any]().union(*numeric.values())
    if any(wanted & number.values for number in find_numbers(text)):
        return True
    plain = _plain(_in_digits(text))
    return any(_plain(_in_digits(answer)) in plain for answer, values in numeric.items() if not values)


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether ``text`` contains one of the accepted ``answers`` as consecutive whole words, both normalised.

    SQuAD-style containment (Liu et al. 2023) would also find "no" in "know" and 28 in 1284. Numbers match by value:
    28 days = twenty-eight days, 1,000 = ۱۰۰۰ (see ``unsupported_numbers``); the text must contain the rest of the
    answer too. An answer that normalisation empties (the grade "A", "+") is compared unchanged, as whole words.
    Raises ValueError if there is no answer, an answer is blank, or ``answers`` is a string instead of a list.
    """
    if isinstance(answers, str) or not answers or not all(map(str.strip, answers)):
        raise ValueError(
            f"the accepted answers are {answers!r}; give a list of one or more strings that are not blank."
        )
    whole = _with_number_marks(text)

    def contains(answer: str) -> bool:
        part = _with_number_marks(answer)
        found = _contains_words(part, whole) if part else _contains_words(answer.strip(), text)
        return found or _contains_numbers(answer, text, whole)

    return any(map(contains, answers))


def _plain(text: str) -> str:
    # Marks are dropped last, because the article "a" is dropped and the word "à" is not.
    text = unicodedata.normalize("NFKD", normalise(_GROUPED.sub("", text)))
    return _UNSEEN.sub("", text).translate(_VARIANTS).replace(" ", "")


def _in_digits(text: str) -> str:
    """The text with each unambiguous number as its value and unit: 39 for thirty-nine, "5 percent" for 5%."""
    parts, end = [], 0
    for number in find_numbers(text):
        if number.kind == "number" and len(number.values) == 1:
            (value,) = number.values
            parts += [text[end : number.start], f" {value} {number.unit} "]
            end = number.end
    return "".join([*parts, text[end:]])


def _number(answer: str) -> frozenset[Any]:
    """The values of an answer that is a single number, with or without a unit; none for any other answer."""
    found = find_numbers(answer)
    return found[0].values if [n.text.strip() for n in found] == [answer.strip()] else frozenset()


def _with_number_marks(text: str) -> str:
    apart = _BEFORE_RAISED.sub(_NUMBER_MARK, text)
    return normalise(_IN_NUMBER.sub(_NUMBER_MARK, unicodedata.normalize("NFKC", apart)))


def _contains_words(part: str, whole: str) -> bool:
    """Whether ``whole`` contains ``part`` as whole words; Hebrew words may have prefixes."""
    before = "" if regex.match(f"[{UNSPACED}]", part) else rf"(?<!{_WORD})"
    before += "[ובהכלמש]{0,2}" if regex.match(r"\p{Hebrew}", part) else ""
    after = "" if regex.match(f"[{UNSPACED}]", part[-1]) else rf"(?!{_WORD})"
    return regex.search(before + regex.escape(part) + after, whole, regex.V1) is not None


def _contains_numbers(answer: str, text: str, whole: str) -> bool:
    """Whether the text has all numbers of an answer and the words between them."""
    numbers = [number for number in find_numbers(answer) if number.unit or not number.weak]
    if not numbers or unsupported_numbers(answer, text):
        return False
    bounds = zip([0, *(n.end for n in numbers)], [*(n.start for n in numbers), len(answer)], strict=True)
    parts = filter(None, (_with_number_marks(answer[start:end]) for start, end in bounds))
    return all(_contains_words(part, whole) for part in parts)
