"""Numbers, dates and amounts in a claim that the text it cites does not hold."""

from collections.abc import Iterable
from typing import Any

import regex

from rag_lab.number_words import Number, find_numbers

_ITEM_NUMBER = regex.compile(r"\s*(?:[-*+•]\s+)?\d{1,3}[.)](?=\s)")


def unsupported_numbers(claim: str, source: str) -> list[Number]:
    """The numbers of ``claim`` that ``source`` does not hold, in order.

    A number is held if the source has an equal one and their units are the same or one of them has none: 1,000 =
    1000 = ۱۰۰۰ = one thousand and 20% = 20 percent, but 20 days are not 20 weeks. A date is held if the source has
    its month and all that the claim adds to it. Nothing is computed or converted (two weeks are not 14 days), and a
    number that stands in the source for something else counts as held. Numbers of list items and of names such as A4
    are left out; "one" and its like count only before a unit.
    """
    held: dict[Any, set[str]] = {}
    for number in find_numbers(source):
        for key in _keys(number):
            held.setdefault(key, set()).add(number.unit)
    item = _ITEM_NUMBER.match(claim)
    begin = item.end() if item else 0
    claimed = [n for n in find_numbers(claim) if n.start >= begin and (n.unit or not n.weak)]
    return [number for number in claimed if not _is_held(number, held)]


def _keys(number: Number) -> Iterable[Any]:
    """What a number of the source holds. A date holds its parts too: the year, the month, the day, and pairs."""
    if number.kind != "date":
        return [(number.kind, value) for value in number.values]
    keys: set[Any] = set()
    for year, month, day in number.values:
        keys |= {("date", (y, month, d)) for y in {year, None} for d in {day, None}}
        keys |= {("number", part) for part in (year, day) if part is not None}
    return keys


def _is_held(number: Number, held: dict[Any, set[str]]) -> bool:
    units = set[str]().union(*(held.get((number.kind, value), ()) for value in number.values))
    return bool(units) and (not number.unit or number.unit in units or "" in units)
