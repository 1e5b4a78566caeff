"""Numbers found in text. Values and units are read by eye."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.text.numbers import find_numbers


def read(text: str) -> list[tuple[str, set[str], str]]:
    """Each number's text, its values as plain decimals, its unit; words that may be none (weak) are left out."""
    return [
        (n.text, {f"{v.normalize():f}" if isinstance(v, Decimal) else str(v) for v in n.values}, n.unit)
        for n in find_numbers(text)
        if n.unit or not n.weak
    ]


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        # digits of any script, separators
        ("1000", "1000", ""),
        ("1,000", "1000", ""),
        ("1 000", "1000", ""),
        ("1\u202f000", "1000", ""),
        ("1'000", "1000", ""),
        ("۱۰۰۰", "1000", ""),
        ("۱٬۰۰۰", "1000", ""),
        ("１０００", "1000", ""),
        ("３．５", "3.5", ""),
        ("1,234,567.89", "1234567.89", ""),
        ("1.234.567,89", "1234567.89", ""),
        ("12,34,567", "1234567", ""),
        ("3.85", "3.85", ""),
        ("3,85", "3.85", ""),
        ("۳٫۸۵", "3.85", ""),
        ("0,250", "0.25", ""),
        ("-5 °C", "-5", "degree"),
        ("−5 градусов", "-5", "degree"),
        # scales
        ("3.85 million", "3850000", ""),
        ("3,85 млн", "3850000", ""),
        ("۳٫۸۵ میلیون", "3850000", ""),
        ("3.85 מיליון", "3850000", ""),
        ("385万", "3850000", ""),
        ("5 тыс. рублей", "5000", "RUB"),
        ("20k", "20000", ""),
        ("5千米", "5", "kilometre"),
        # units before and behind
        ("20%", "20", "percent"),
        ("20 per cent", "20", "percent"),
        ("20 אחוזים", "20", "percent"),
        ("۲۰ درصد", "20", "percent"),
        ("٪۲۰", "20", "percent"),
        ("20 процентов", "20", "percent"),
        ("20％", "20", "percent"),
        ("百分之20", "20", "percent"),
        ("百分之二十五", "25", "percent"),
        ("€ 20", "20", "EUR"),
        ("20 €", "20", "EUR"),
        ("EUR 20", "20", "EUR"),
        ("20 יורו", "20", "EUR"),
        ("US$1,250.50", "1250.5", "USD"),
        ('50 ש"ח', "50", "ILS"),
        ("50 ש״ח", "50", "ILS"),
        ("۵۰ تومان", "50", "toman"),
        ("300元", "300", "CNY"),
        ("20-day", "20", "day"),
        ("20kg", "20", "kilogram"),
        ('5 ק"מ', "5", "kilometre"),
        # words
        ("twenty-five days", "25", "day"),
        ("Two Hundred kilometres", "200", "kilometre"),
        ("one hundred and twenty", "120", ""),
        ("one day", "1", "day"),
        ("עשרים וחמישה ימים", "25", "day"),
        ("בשלושה חודשים", "3", "month"),
        ("שתים עשרה שעות", "12", "hour"),
        ("יומיים", "2", "day"),
        ("שבועיים", "2", "week"),
        ("בשנתיים", "2", "year"),
        ("بیست و پنج روز", "25", "day"),
        ("نه ماه", "9", "month"),
        ("двадцать пять дней", "25", "day"),
        ("двух недель", "2", "week"),
        ("二十五天", "25", "day"),
        ("两个月", "2", "month"),
        ("三千二百元", "3200", "CNY"),
        ("一万二千元", "12000", "CNY"),
        ("二〇二四年", "2024", "year"),
    ],
)
def test_a_number_is_read(text: str, value: str, unit: str) -> None:
    assert read(text) == [(text, {value}, unit)]


@pytest.mark.parametrize(
    ("text", "values"),
    [("1.250", {"1250", "1.25"}), ("1,250", {"1250", "1.25"}), ("1.000", {"1000", "1"}), ("3.2.1", {"3.2.1"})],
)
def test_what_may_mean_two_things_means_both(text: str, values: set[str]) -> None:
    assert read(text) == [(text, values, "")]


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("2024-03-01", {(2024, 3, 1)}),
        ("01.03.2024", {(2024, 3, 1)}),
        ("3/4/2024", {(2024, 3, 4), (2024, 4, 3)}),
        ("25/12/2024", {(2024, 12, 25)}),
        ("1 March 2024", {(2024, 3, 1)}),
        ("1st of March, 2024", {(2024, 3, 1)}),
        ("March 1, 2024", {(2024, 3, 1)}),
        ("Sept. 5", {(None, 9, 5)}),
        ("March 2024", {(2024, 3, None)}),
        ("April", {(None, 4, None)}),
        ("1 במרץ 2024", {(2024, 3, 1)}),
        ("1 марта 2024", {(2024, 3, 1)}),
        ("۱ مارس ۲۰۲۴", {(2024, 3, 1)}),
        ("۱۵ فروردین ۱۴۰۳", {(1403, 101, 15)}),
        ("2024年3月1日", {(2024, 3, 1)}),
        ("3月1日", {(None, 3, 1)}),
        ("3月", {(None, 3, None)}),
    ],
)
def test_a_date_is_read(text: str, dates: set[tuple]) -> None:
    (number,) = find_numbers(text)
    assert (number.text, number.kind, set(number.values)) == (text, "date", dates)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("9:30", 570),
        ("17:00", 1020),
        ("5 p.m.", 1020),
        ("12:15 am", 15),
        ("12 pm", 720),
        ("下午3点半", 930),
        ("９：３０", 570),
    ],
)
def test_a_time_is_read_as_minutes(text: str, minutes: int) -> None:
    (number,) = find_numbers(text)
    assert (number.text, number.kind, set(number.values)) == (text, "time", {minutes})


@pytest.mark.parametrize(
    "text",
    [
        "A4 paper, v2.5, COVID19, H2O, файл Б12",
        "one of them, no one, a million thanks, hundreds of people",
        "אחד מהם, יום שני, אלפי אנשים",
        "یکی از آنها، نه، یک نفر",
        "один из них, семью",
        "统一管理，一般，三明治，万一，第一",
        "You may go. They march on.",
        "someone, weight, tent, often",
    ],
)
def test_names_and_words_that_are_no_numbers_are_left_out(text: str) -> None:
    assert read(text) == []


def test_numbers_keep_apart() -> None:
    text = "From 10–20 days, 3 or four weeks, 2 500 men (1 800 in 2023), two three."
    assert [(n.text, text[n.start : n.end]) for n in find_numbers(text)] == [
        (word, word) for word in ["10", "20 days", "3", "four weeks", "2 500", "1 800", "2023", "two", "three"]
    ]


def test_an_impossible_date_or_time_is_a_code() -> None:
    assert read("31.13.2024, 29:70") == [("31.13.2024", {"31.13.2024"}, ""), ("29:70", {"29:70"}, "")]


PIECES = (
    "1 23 000 1,000 . , : / - % € two twenty hundred יומיים ו שני سی و пять млн 百分之 二 十 万 千 米 月 日 March am"
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*PIECES.split(), " ", "\n"]), max_size=25).map("".join))
def test_places_are_exact_apart_and_have_values(text: str) -> None:
    numbers = find_numbers(text)
    assert all(text[n.start : n.end] == n.text and n.values for n in numbers)
    assert all(a.end <= b.start for a, b in pairwise(numbers))


@pytest.mark.parametrize(
    "piece", ["1", "1,", "1 ", "1.", "two ", "一", "百分之", "$", "- ", "May ", "1 000", "2024-", "ו"]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * 50_000
    assert all(text[n.start : n.end] == n.text for n in find_numbers(text))
