"""Find numbers, dates and times of day in a text, however they are written: 1,000, ۱۰۰۰, twenty-five, 百分之二十.

``unsupported_numbers`` lists those of a claim that the cited text does not have.
"""

import functools
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

import regex
import yaml
from babel import Locale

from rag_lab import settings

WORDS = settings.DATA / "number_words.yaml"

_MAX_DIGITS = 40  # a longer run of digits is a code


@dataclass(frozen=True)
class Number:
    """A number with its unit, a date or a time of day: ``text == whole[start:end]``.

    ``values``: the possible meanings. Numbers are Decimals ("1.250" is 1250 or 1.25). Dates are (year, month, day)
    with None for each part that is missing ("3/4/2024" is in March or in April). Times are minutes after midnight.
    A code such as 3.2.1 is a number with itself, a string, as value. ``unit``: a name of ``data/number_words.yaml``,
    or "". ``weak``: it may be no number at all ("one"). ``scale``: that of the scale word after its digits.
    """

    start: int
    end: int
    text: str
    kind: Literal["number", "date", "time"]
    values: frozenset[Any]
    unit: str = ""
    weak: bool = False
    scale: Decimal = Decimal(1)


def find_numbers(text: str) -> list[Number]:
    """All numbers, dates and times in ``text``, in order and without overlap. Takes linear time."""
    # regex knows digits of newer scripts than Python can convert: those are not numbers. Offsets stay the same.
    text = regex.sub(r"\d", lambda digit: digit[0] if digit[0].isdecimal() else "\ufffd", text)
    found: list[Number] = []
    run: list[Number] = []  # the words of the last number in ``found``
    for match in _lexicon().number.finditer(text):
        number = _parse(match)
        run = [*run, number] if match["word"] and run and _continues(run[-1], number, text) else [number]
        if len(run) == 1:
            found.append(number)
            run = run if match["word"] and not number.unit else []
            continue
        # The words are one number, or two: two thousand | two thousand.
        first, run = next(pair for i in range(len(run)) if None not in map(_compose, pair := (run[:i], run[i:])))
        found[-1:] = [_joined(words, text) for words in (first, run) if words]
    whole: list[Number] = []
    for number in found:
        # The scale word and the unit of a number may have been found as the next number ("3 million", 5千米).
        taken = whole[-1].end if whole else 0
        if number.start >= taken:
            whole.append(_with_unit(number, text, taken) if number.kind == "number" else number)
    return [*(_as_range(*pair, text) for pair in pairwise(whole)), *whole[-1:]]


_HAN = "[〇零一二两兩三四五六七八九十百千万萬亿億]"
_RAISED = "[⁰¹²³⁴-⁹]"
_FRACTION = "[¼-¾⅐-⅞]"
_DIGITS = (
    # Not inside a name (A4, COVID19, v2.5). A hyphen is a minus only after white space or a bracket.
    r"(?<![\p{Latin}\p{Cyrillic}\d_]|\d[.,٫٬])(?:(?<![\w)])(?:[-−]|(?<!\d\s)(?i:MINUS)\s))?"
    # Groups apart by spaces, or groups and decimals apart by other separators.
    r"(?:\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,٫]\d+)?|\d+(?:[.,٫٬．]\d+|['’]\d{3}(?!\d))*"
    # A decimal without its leading zero: .5 mg
    r"|(?<![\w.,٫)\]])[.٫]\d+)"
    # Powers and fractions: 10⁶, 10^6, 6.02×10²³, 1½.
    rf"(?:\s?[×·]\s?10)?(?:[⁺⁻]?{_RAISED}{{1,3}}(?!{_RAISED})|\^[-−]?\d{{1,3}}|(?:(?<=\d)\s?)?{_FRACTION})?|{_FRACTION}"
)
_MARK = "[-\u2010\u2011/.]"
_YEAR, _DAY = r"(?P<year>\d{4})(?!\d)", r"(?P<day>\d{1,2})(?!\d)"
_NAME = r"(?<![\p{L}\p{M}])[בהלמ]?(?P<name>MONTH)\.?"  # Hebrew prefixes, then a month of the lexicon
_DATES_FROM_DIGIT = (
    rf"{_YEAR}{_MARK}(?P<month>\d{{1,2}}){_MARK}{_DAY}",  # 2024-03-01
    rf"(?P<first>\d{{1,2}})(?P<mark>{_MARK})(?P<second>\d{{1,2}})(?P=mark){_YEAR}",  # 1.3.2024, 3/1/2024, 1-3-2024
    rf"(?:{_YEAR}\s?年\s?)?(?P<month>\d{{1,2}})\s?月(?:\s?{_DAY}\s?[日号號])?",  # 2024年3月1日
    rf"{_DAY}(?:st|nd|rd|th|-?го|\.)?\s?(?:of\s)?{_NAME}(?:,?\s{_YEAR})?",  # 1st of March 2024
)
_DATES_FROM_NAME = (
    rf"{_NAME}\s{_DAY}(?:st|nd|rd|th)?(?:,?\s{_YEAR})?",  # March 1, 2024
    rf"{_NAME},?\s{_YEAR}",  # March 2024
    _NAME,
)
_DATE = rf"(?<!\d[.,/-]?)(?:{'|'.join(_DATES_FROM_DIGIT)})|{'|'.join(_DATES_FROM_NAME)}"
_HALF = r"(?P<half>[aApP])\.?[mM]\b\.?"
_TIMES = (
    rf"(?P<hour>\d{{1,2}})[:：](?P<minute>\d{{2}})(?![\d:])(?:\s?{_HALF})?",  # 14:30, 2:30 pm
    rf"(?P<hour>\d{{1,2}})(?:\.(?P<minute>\d{{2}}))?\s?{_HALF}",  # 2 p.m., 2.30 pm
    # 下午2点半
    r"(?P<half>上午|早上|下午|晚上)?(?P<hour>\d{1,2})[点點时時](?:(?P<minute>\d{1,2})分|(?P<thirty>半))?",
)
_TIME = rf"(?<![\d.,:])(?:{'|'.join(_TIMES)})"


class _Lexicon:
    """``data/number_words.yaml`` by form (lower case → meaning), and the patterns made of its forms."""

    def __init__(self) -> None:
        lists = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
        words, weak, scales, units = (_by_form(lists[key]) for key in ("words", "weak_words", "scales", "units"))
        self.scales, self.units, self.words = scales, units | {"百分之": "percent"}, words | weak | scales
        self.months = {form: number for number, forms in lists["months"].items() for form in forms}
        self.pairs: dict[str, str] = lists["pairs"]  # forms that mean two of a unit
        self.weak, self.weak_months, self.joiners = {*weak, *scales}, lists["weak_months"], lists["joiners"]
        # A date, a time, digits, a Chinese numeral or a word; each has its group.
        kinds = {
            "date": _DATE.replace("MONTH", _one_of(self.months)),
            "time": _TIME,
            "digits": _DIGITS.replace("MINUS", _one_of(lists["minus"])),
        }
        kinds["han"] = rf"(?:(?!百分之){_HAN})++"
        # Hebrew attaches prepositions, the article and "and" to the word.
        forms = _one_of([*self.words, *self.pairs])
        word = rf"(?<![\p{{L}}\p{{M}}\p{{N}}])[ובהכלמש]{{0,2}}(?i:(?P<word>{forms}))"
        named = [f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items()]
        self.number = regex.compile("|".join([*named, word]), regex.V0)
        # Currencies by ISO code (in capitals) and by sign, from the CLDR.
        codes, signs = Locale("en").currencies, Locale("en").currency_symbols
        currencies = {str(code).lower(): code for code in codes}
        self.units = currencies | {str(sign).lower(): c for c, sign in signs.items()} | self.units
        code = f"(?P<form>{'|'.join(codes)})(?!\\w)"
        self.unit_after = regex.compile(
            rf"[\s\u200c\u2010\u2011-]{{0,2}}(?:(?i:(?P<form>{_one_of(units)}))|{code}|(?P<form>{_one_of(signs.values())}))"
        )
        # Currencies, and the Chinese per cent, may come first. Searched backwards.
        first = [
            "百分之",
            *signs.values(),
            *(form for form in units if regex.fullmatch(r"[a-z]{3}|\P{L}|[a-z]{1,2}\$", form)),
        ]
        before = f"(?i:(?P<form>{'|'.join(map(regex.escape, first))}))|(?P<form>{'|'.join(codes)})"
        self.unit_before = regex.compile(rf"(?r)(?<!\p{{L}})(?:{before})\s?\Z")
        self.scale_after = regex.compile(rf"\s?(?i:(?P<form>{_one_of(scales)}))")
        # 5M; 5m after a currency
        self.letter_after = regex.compile(r"(?P<form>[MmBb])(?![\p{L}\p{M}\p{N}])")
        self.range_end = regex.compile(rf"\s?[-–—]\s?|\s(?i:{_one_of(lists['to'])})\s")
        self.counter_after = regex.compile("|".join(lists["counters"]))


_lexicon = functools.cache(_Lexicon)


def _by_form(lists: dict[Any, list[str]]) -> dict[str, Any]:
    return {form.lower(): name for name, forms in lists.items() for form in forms}


def _one_of(forms: Iterable[str]) -> str:
    """Alternatives, longest first. A form that ends in a letter must be a whole word, except in Chinese."""
    letter = regex.compile(r"[\p{L}--\p{Han}]", regex.V1)
    ends = {form: r"(?![\p{L}\p{M}])" if letter.match(form[-1]) else "" for form in forms}
    return "|".join(regex.escape(form) + ends[form] for form in sorted(ends, key=len, reverse=True))


def _parse(match: regex.Match[str]) -> Number:
    lexicon = _lexicon()
    number = Number(match.start(), match.end(), match[0], "number", frozenset({match[0]}))
    if match["date"]:
        if dates := _dates(match):
            bare = not (match["day"] or match["year"])
            return replace(number, kind="date", values=dates, weak=bare and match["name"] in lexicon.weak_months)
    elif match["time"]:
        if (minutes := _minutes(match)) is not None:
            return replace(number, kind="time", values=frozenset({minutes}))
    elif match["digits"]:
        return replace(number, values=_digit_values(match[0]) | _cells(match))
    elif match["han"]:
        return replace(number, values=frozenset({Decimal(_han_value(match[0]))}), weak=True)
    elif (form := match["word"].lower()) in lexicon.pairs:
        return replace(number, values=frozenset({Decimal(2)}), unit=lexicon.pairs[form])
    else:
        return replace(number, values=frozenset({Decimal(lexicon.words[form])}), weak=form in lexicon.weak)
    return number


def _dates(match: regex.Match[str]) -> frozenset[Any]:
    """The possible meanings of a date; none if the day or month does not exist."""
    year, day = (int(match[part]) if match[part] else None for part in ("year", "day"))
    if match["first"]:
        pairs = [(int(match["second"]), int(match["first"]))]
        pairs += [pairs[0][::-1]] if match["mark"] != "." else []
        found: list[tuple[int | None, int, int | None]] = [(year, m, d) for m, d in pairs]
    else:
        found = [(year, int(match["month"]) if match["month"] else _lexicon().months[match["name"]], day)]
    return frozenset((y, m, d) for y, m, d in found if 1 <= m % 100 <= 12 and (d is None or 1 <= d <= 31))


def _minutes(match: regex.Match[str]) -> int | None:
    hour = int(match["hour"])
    minute = 30 if match["thirty"] else int(match["minute"] or 0)
    half = (match["half"] or "").lower()
    if hour > 24 or minute > 59 or (half and half in "ap" and not 1 <= hour <= 12):
        return None
    if half in ("p", "下午", "晚上") and hour < 12:
        hour += 12
    return (hour * 60 + minute) if not (half == "a" and hour == 12) else minute


_POWER = regex.compile(rf"(?P<times>\s?[×·]\s?10)?(?:(?P<raised>[⁺⁻]?{_RAISED}+)|\^(?P<typed>[-−]?\d+))\Z")


def _cells(match: regex.Match[str]) -> frozenset[Decimal]:
    """In a row of numbers, groups that are apart by a space may be cells of a table: 2024 12 500."""
    before, after = match.string[max(0, match.start() - 2) : match.start()], match.string[match.end() :][:2]
    if " " in match[0] and (regex.fullmatch(r"\d\s", before) or regex.fullmatch(r"\s\d", after)):
        return frozenset(Decimal(cell) for cell in match[0].split() if cell.isdecimal())
    return frozenset()


def _digit_values(digits: str) -> frozenset[Any]:
    """The values of a number in digits. A single separator before three digits may be either kind.

    A raised number after another base than 10 and 2 may be a note: both meanings count.
    """
    if digits.isdecimal() and len(digits) <= _MAX_DIGITS:
        return frozenset({Decimal(digits)})
    if fraction := regex.search(rf"\s?({_FRACTION})\Z", digits):
        part = Decimal(str(unicodedata.numeric(fraction[1])))
        whole_values = _digit_values(digits[: fraction.start()]) if fraction.start() else frozenset({Decimal(0)})
        return frozenset(value + part for value in whole_values if isinstance(value, Decimal))
    if power := _POWER.search(digits):
        exponent = int(unicodedata.normalize("NFKC", power["raised"] or power["typed"]).replace("−", "-"))
        bases = _digit_values(digits[: power.start()])
        if power["times"]:
            return frozenset(base * Decimal(10) ** exponent for base in bases if isinstance(base, Decimal))
        note = frozenset() if power["typed"] or bases & {Decimal(10), Decimal(2)} else bases
        return note | frozenset(base**exponent for base in bases if isinstance(base, Decimal) and base)
    digits = regex.sub(r"^\p{L}+\s", "-", digits)  # minus in letters
    plain = "".join(str(int(c)) if c.isdigit() else c for c in digits).replace("−", "-").replace("．", ".")
    plain = regex.sub("[ \u00a0\u2009\u202f'’٬]", "", plain)
    marks = regex.findall("[.,٫]", plain)
    whole, *groups = regex.split("[.,٫]", plain)
    if len(plain) > _MAX_DIGITS:
        return frozenset({plain})
    if not marks:
        return frozenset({Decimal(whole)})
    if whole in ("", "-"):
        return frozenset({Decimal(f"{whole}0.{groups[-1]}")})
    joined = Decimal(whole + "".join(groups))
    decimal = Decimal(f"{whole}{''.join(groups[:-1])}.{groups[-1]}")
    if len(set(marks)) > 1:
        return frozenset({decimal}) if marks.count(marks[-1]) == 1 else frozenset({plain})
    if len(marks) > 1:
        grouped = all(len(group) in (2, 3) for group in groups) and len(groups[-1]) == 3
        return frozenset({joined}) if grouped else frozenset({plain})
    if marks[0] == "," and groups[0] == "000":
        return frozenset({joined})
    if marks[0] == "٫" or len(groups[0]) != 3 or len(whole.lstrip("-")) > 3 or whole.lstrip("-") == "0":
        return frozenset({decimal})
    return frozenset({joined, decimal})


def _han_value(numeral: str) -> int:
    """A number in Chinese characters: 二十五 is 25, 三千二百 is 3200, 二〇二四 is 2024."""
    digits = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
    powers = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
    if all(character in digits for character in numeral):
        return int("".join(str(digits[character]) for character in numeral[:_MAX_DIGITS]))
    total = section = digit = 0
    for character in numeral[:_MAX_DIGITS]:
        if character in digits:
            digit = digits[character]
        elif (power := powers[character]) < 10**4:
            section += (digit or 1) * power
            digit = 0
        else:
            total = (total + section + digit or 1) * power
            section = digit = 0
    return total + section + digit


def _continues(before: Number, word: Number, text: str) -> bool:
    """Whether ``word`` may belong to the number in words that ``before`` belongs to."""
    between = text[before.end : word.start].lower().replace("\u2010", "-").replace("\u2011", "-").replace("\xa0", " ")
    return not word.unit and between in _lexicon().joiners


def _joined(words: list[Number], text: str) -> Number:
    if len(words) == 1:
        return words[0]
    start, end, value = words[0].start, words[-1].end, _compose(words)
    return Number(start, end, text[start:end], "number", frozenset({value}))


def _compose(words: list[Number]) -> Decimal | None:
    """The value of the words of one number; None if they are not one number.

    A group (two hundred twenty-five) is multiplied by the scale word after it (thousand), and each further group must
    be smaller than the scale before it: two thousand five hundred is 2500.
    """
    scales = _lexicon().scales
    total = group = Decimal(0)
    smallest = Decimal("Infinity")  # of the scales so far
    for word in words:
        (value,) = word.values
        if word.text.lower() not in scales:
            tens, hundreds = group % 100, group % 1000
            fits = (
                not group or (value < 10 and tens >= 20 and tens % 10 == 0) or (value < 100 and hundreds and not tens)
            )
            teen = value == 10 and 0 < tens < 10 and not words[0].weak  # Hebrew: five ten is 15
            if not (fits or teen):
                return None
            group += value
        elif value == 100:
            if group >= 100:
                return None
            group = (group or 1) * value
        elif value < smallest:
            total, group, smallest = total + (group or 1) * value, Decimal(0), value
        elif value > smallest and not group:  # thousand million
            total, smallest = total * value, value
        else:
            return None
        if group >= smallest:
            return None
    return total + group


def _with_unit(number: Number, text: str, taken: int) -> Number:
    """The number with its scale word (3.85 million) and unit; the text up to ``taken`` belongs to another number."""
    lexicon = _lexicon()
    if number.unit:
        return number
    end, values, weak = number.end, number.values, number.weak
    after = lexicon.unit_after.match(text, end)
    before = lexicon.unit_before.search(text[max(taken, number.start - 6) : number.start])
    factor = Decimal(1)
    scale = None if isinstance(next(iter(values)), str) else lexicon.letter_after.match(text, end)
    if scale and not (scale["form"].isupper() or before):
        scale = None
    if not (scale or after or isinstance(next(iter(values)), str)):
        scale = lexicon.scale_after.match(text, end)
    if scale:
        factor = Decimal(lexicon.scales[{"m": "million", "b": "billion"}.get(form := scale["form"].lower(), form)])
        values = frozenset(value * factor for value in values)
        end, weak = scale.end(), False
        after = lexicon.unit_after.match(text, end)
    before = None if after else before
    found = after or before
    if not found and values != {Decimal(1)} and lexicon.counter_after.match(text, end):
        weak = False
    unit = lexicon.units[found["form"].lower()] if found else ""
    start, end = number.start - (len(before[0]) if before else 0), after.end() if after else end
    return Number(start, end, text[start:end], "number", values, unit, weak, factor)


def _as_range(number: Number, following: Number, text: str) -> Number:
    """The first number of a range (5–10 million km) may have the scale word and the unit of the second."""
    if number.kind != "number" or following.kind != "number" or number.unit or number.scale != 1:
        return number
    if not _lexicon().range_end.fullmatch(text[number.end : following.start]):
        return number
    scaled = {value * following.scale for value in number.values if isinstance(value, Decimal)}
    return replace(number, values=number.values | scaled, unit=following.unit)


_ITEM_NUMBER = regex.compile(r"\s*(?:[-*+•]\s+)?\d{1,3}[.)](?=\s)")


def unsupported_numbers(claim: str, source: str) -> list[Number]:
    """The numbers of ``claim`` that ``source`` does not have, in order.

    A number is supported if the source has an equal one and their units are equal or one has none: 1,000 = 1000 =
    ۱۰۰۰ = one thousand and 20% = 20 percent, but 20 days are not 20 weeks. A date is supported if the source has its
    month and everything that the claim adds to it. Nothing is computed or converted (two weeks are not 14 days), and
    a number that means something else in the source still counts. Skips numbers of list items and of names such as
    A4; "one" and the like count only before a unit.
    """
    units_by_value: dict[Any, set[str]] = {}
    for number in find_numbers(source):
        for key in _keys(number):
            units_by_value.setdefault(key, set()).add(number.unit)

    def is_supported(number: Number) -> bool:
        units = set[str]().union(*(units_by_value.get((number.kind, value), ()) for value in number.values))
        return bool(units) and (not number.unit or number.unit in units or "" in units)

    item = _ITEM_NUMBER.match(claim)
    claimed = [n for n in find_numbers(claim) if n.start >= (item.end() if item else 0) and (n.unit or not n.weak)]
    return [number for number in claimed if not is_supported(number)]


def _keys(number: Number) -> Iterable[Any]:
    """What a number of the source supports. A date supports its parts too: year, month, day, and pairs."""
    if number.kind != "date":
        return [(number.kind, value) for value in number.values]
    keys: set[Any] = set()
    for year, month, day in number.values:
        keys |= {("date", (y, month, d)) for y in {year, None} for d in {day, None}}
        keys |= {("number", part) for part in (year, day) if part is not None}
    return keys
