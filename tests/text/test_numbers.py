"""Numbers found in text, and those of a claim that its source lacks. Values and units are read by eye."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.citations.validation import check_numbers, validate_citations
from rag_lab.text.numbers import find_numbers, unsupported_numbers
from tests.support.cited_sources import sources


def read(text: str) -> list[tuple[str, set[str], str]]:
    """Each number's text, its values as plain decimals, and its unit; without weak words."""
    return [
        (n.text, {f"{v.normalize():f}" if isinstance(v, Decimal) else str(v) for v in n.values}, n.unit)
        for n in find_numbers(text)
        if n.unit or not n.weak
    ]


# fmt: off
# Value and unit: the forms that mean them.
NUMBERS = {
    ("1000", ""): ["1000", "1,000", "1 000", "1\u202f000", "1'000", "۱۰۰۰", "۱٬۰۰۰", "１０００"],
    ("3.5", ""): ["３．５"],
    ("1234567.89", ""): ["1,234,567.89", "1.234.567,89"],
    ("1234567", ""): ["12,34,567"],
    ("3.85", ""): ["3.85", "3,85", "۳٫۸۵"],
    ("0.25", ""): ["0,250"],
    ("-5", "degree"): ["-5 °C", "−5 градусов"],
    ("3850000", ""): ["3.85 million", "3,85 млн", "۳٫۸۵ میلیون", "3.85 מיליון", "385万"],
    ("5000", "RUB"): ["5 тыс. рублей"],
    ("20000", ""): ["20k"],
    ("5", "kilometre"): ["5千米", '5 ק"מ'],
    ("20", "percent"): ["20%", "20 per cent", "20 אחוזים", "۲۰ درصد", "٪۲۰", "20 процентов", "20％", "百分之20"],
    ("25", "percent"): ["百分之二十五"],
    ("20", "EUR"): ["€ 20", "20 €", "EUR 20", "20 יורו"],
    ("1250.5", "USD"): ["US$1,250.50"],
    ("50", "ILS"): ['50 ש"ח', "50 ש״ח"],
    ("50", "toman"): ["۵۰ تومان"],
    ("300", "CNY"): ["300元"],
    ("20", "day"): ["20-day"],
    ("20", "kilogram"): ["20kg"],
    ("25", "day"): ["twenty-five days", "עשרים וחמישה ימים", "بیست و پنج روز", "двадцать пять дней", "二十五天"],
    ("200", "kilometre"): ["Two Hundred kilometres"],
    ("120", ""): ["one hundred and twenty"],
    ("1", "day"): ["one day"],
    ("3", "month"): ["בשלושה חודשים"],
    ("12", "hour"): ["שתים עשרה שעות"],
    ("2", "day"): ["יומיים"],
    ("2", "week"): ["שבועיים", "двух недель"],
    ("2", "year"): ["בשנתיים"],
    ("9", "month"): ["نه ماه"],
    ("2", "month"): ["两个月"],
    ("3200", "CNY"): ["三千二百元"],
    ("12000", "CNY"): ["一万二千元"],
    ("2024", "year"): ["二〇二四年"],
}
DATES = {
    ((2024, 3, 1),): ["2024-03-01", "01.03.2024", "1 March 2024", "1st of March, 2024", "March 1, 2024",
        "1 במרץ 2024", "1 марта 2024", "۱ مارس ۲۰۲۴", "2024年3月1日"],
    ((2024, 3, 4), (2024, 4, 3)): ["3/4/2024"],
    ((2024, 12, 25),): ["25/12/2024"],
    ((None, 9, 5),): ["Sept. 5"],
    ((2024, 3, None),): ["March 2024"],
    ((None, 4, None),): ["April"],
    ((1403, 101, 15),): ["۱۵ فروردین ۱۴۰۳"],
    ((None, 3, 1),): ["3月1日"],
    ((None, 3, None),): ["3月"],
}
MINUTES = {
    570: ["9:30", "９：３０"],
    1020: ["17:00", "5 p.m."],
    15: ["12:15 am"],
    720: ["12 pm"],
    930: ["下午3点半"],
}
SUPPORTED = [  # claim, source
    ("1,000 staff", "1000 staff"), ("1000 staff", "۱۰۰۰ نفر"), ("۱۰۰۰ نفر", "one thousand people"),
    ("20% of it", "20 percent of it"), ("20 אחוזים", "百分之二十"), ("3.85 million people", "3 850 000 человек"),
    ("twelve months", "12 months"), ("12 months", "twelve months"), ("25 days", "עשרים וחמישה ימים"),
    ("20 days", "20 working days"), ("20 days", "| days | 20 |"), ("€1,250", "1.250 EUR"),
    ("on 1 March 2024", "2024-03-01"), ("1 марта", "March 1, 2024"), ("in March 2024", "on 1 March 2024"),
    ("in 2024", "on 1 March 2024"), ("2024年3月", "on 1 March 2024"), ("at 5 p.m.", "at 17:00"),
    ("3/4/2024", "4 March 2024"), ("1. Dogs may come", "Dogs may come"),
    ("- 2) Dogs may come", "Dogs may come"), ("A4 paper for one of them", "paper"), ("Nothing to count", ""),
]
UNSUPPORTED = [  # claim, source, the numbers that it lacks
    ("Staff get 30 days and 5 more.", "Staff get 20 days and 5 more.", ["30 days"]),
    ("20 days", "20 weeks", ["20 days"]), ("20%", "20 days", ["20%"]), ("€20", "$20", ["€20"]),
    ("1,000", "1", ["1,000"]), ("2.5 days", "25 days", ["2.5 days"]),
    ("3.9 million", "3.85 million", ["3.9 million"]), ("on 1 March 2024", "on 2 March 2024", ["1 March 2024"]),
    ("on 1 March 2024", "on 1 March 2023", ["1 March 2024"]),
    ("on 1 March 2024", "on 1 March", ["1 March 2024"]), ("in April", "in May", ["April"]),
    ("at 5:00", "at 17:00", ["5:00"]), ("version 3.2.1", "version 3.2.2", ["3.2.1"]),
    ("30 ימי חופשה", "20 ימי חופשה", ["30 ימי"]), ("۳۰ روز", "۲۰ روز", ["۳۰ روز"]),
    ("тридцать дней", "двадцать дней", ["тридцать дней"]), ("三十天", "二十天", ["三十天"]),
    ("one week", "two weeks", ["one week"]), ("1. Dogs get 3 days", "Dogs", ["3 days"]),
]
# fmt: on


@pytest.mark.parametrize(("meaning", "text"), [(m, form) for m, forms in NUMBERS.items() for form in forms])
def test_a_number_is_found(meaning: tuple[str, str], text: str) -> None:
    value, unit = meaning
    assert read(text) == [(text, {value}, unit)]


@pytest.mark.parametrize(
    ("text", "values"),
    [("1.250", {"1250", "1.25"}), ("1,250", {"1250", "1.25"}), ("1.000", {"1000", "1"}), ("3.2.1", {"3.2.1"})],
)
def test_an_ambiguous_number_has_both_values(text: str, values: set[str]) -> None:
    assert read(text) == [(text, values, "")]


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [("date", set(dates), form) for dates, forms in DATES.items() for form in forms]
    + [("time", {minutes}, form) for minutes, forms in MINUTES.items() for form in forms],
)
def test_a_date_or_time_is_found(kind: str, values: set, text: str) -> None:
    (number,) = find_numbers(text)
    assert (number.text, number.kind, set(number.values)) == (text, kind, values)


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
def test_names_and_other_words_are_not_numbers(text: str) -> None:
    assert read(text) == []


def test_numbers_do_not_run_together() -> None:
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
def test_offsets_are_exact_and_numbers_do_not_overlap(text: str) -> None:
    numbers = find_numbers(text)
    assert all(text[n.start : n.end] == n.text and n.values for n in numbers)
    assert all(a.end <= b.start for a, b in pairwise(numbers))


@pytest.mark.parametrize(
    "piece", ["1", "1,", "1 ", "1.", "two ", "一", "百分之", "$", "- ", "May ", "1 000", "2024-", "ו"]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * 50_000
    assert all(text[n.start : n.end] == n.text for n in find_numbers(text))


def unsupported(claim: str, source: str) -> list[str]:
    return [number.text for number in unsupported_numbers(claim, source)]


@pytest.mark.parametrize(("claim", "source"), SUPPORTED)
def test_a_number_that_the_source_has_in_any_form_is_supported(claim: str, source: str) -> None:
    assert unsupported(claim, source) == []


@pytest.mark.parametrize(("claim", "source", "expected"), UNSUPPORTED)
def test_a_number_that_the_source_lacks_is_named(claim: str, source: str, expected: list[str]) -> None:
    assert unsupported(claim, source) == expected


def test_limits_of_the_check() -> None:
    """A change should be noticed: nothing is converted, and a number may mean something else in the source."""
    assert unsupported("two weeks", "14 days") == ["two weeks"]
    assert unsupported("40 days in all", "20 days, then 20 days") == ["40 days"]
    assert unsupported("Dogs may stay 5 days", "Dogs may stay 3 days, cats 5 days") == []


def test_each_sentence_is_checked_against_its_sources() -> None:
    given = sources("Staff get 20 days.", "Interns get 10 days.", title="Rules of 2024")
    answer = "In 2024, staff get 10 days [S1]. Both get 10 or 20 [S1][S2]. Guests get 99. Cats get 7 [S9]."
    report = validate_citations(answer, given)
    ((sentence, numbers),) = check_numbers(report)
    assert sentence == report.sentences[0]
    (number,) = numbers
    assert answer[sentence.start + number.start : sentence.start + number.end] == number.text == "10 days"


def test_digits_of_a_marker_are_not_a_number() -> None:
    report = validate_citations("Staff get leave [S1].", sources("Staff get leave."))
    assert check_numbers(report) == []


def test_a_hostile_claim_takes_linear_time() -> None:
    claim = " ".join(f"{i} days on {i % 28 + 1} March {i % 9000 + 1000}" for i in range(10_000))
    assert unsupported(claim, claim) == []


def test_a_digit_newer_than_pythons_tables_is_not_a_number() -> None:
    assert unsupported_numbers("\U00016d70\U00016d71 euros", "nothing") == []
    assert [n.text for n in unsupported_numbers("\U00016d70 and 7", "nothing")] == ["7"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        # Scale words multiply their own group only.
        ("two thousand five hundred", ["2500"]),
        ("five thousand two hundred dollars", ["5200"]),
        ("one million two hundred thousand", ["1200000"]),
        ("three hundred twenty million", ["320000000"]),
        ("five hundred and three thousand and six", ["503006"]),
        ("sixty-two hundred", ["6200"]),
        ("two thousand million", ["2000000000"]),
        ("two thousand two thousand", ["2000", "2000"]),
        ("one two hundred", ["1", "200"]),
        ("nineteen eighty-four", ["19", "84"]),
        ("שלושת אלפים וחמש מאות", ["3500"]),
        ("одна тысяча двести", ["1200"]),
        ("две тысячи триста сорок пять", ["2345"]),
        ("девятьсот тысяч четыреста", ["900400"]),
        ("سه هزار و پانصد", ["3500"]),
        ("هفتصد و بیست", ["720"]),
        ("twenty\u2011eight", ["28"]),
        # Decimals without a leading zero, powers, fractions.
        (".5", ["0.5"]),
        ("-.5", ["-0.5"]),
        ("$.50", ["0.50"]),
        ("end.5", ["5"]),
        ("10²", ["100"]),
        ("10^6", ["1000000"]),
        ("10⁻³", ["0.001"]),
        ("6.02×10³", ["6020.00"]),
        ("1½", ["1.5"]),
        ("2 ¾", ["2.75"]),
        ("½", ["0.5"]),
        # Scale letters and words.
        ("$5M", ["5000000"]),
        ("£5m", ["5000000"]),
        ("5 m", ["5"]),
        ("5MB", ["5"]),
        ("₹5 lakh", ["500000"]),
        ("3 crore", ["30000000"]),
        ("2 trillion", ["2000000000000"]),
        ("minus 5", ["-5"]),
        ("10 minus 5", ["10", "5"]),
    ],
)
def test_values_of_spellings(text: str, values: list[str]) -> None:
    found = [number.values for number in find_numbers(text)]
    assert found == [frozenset({Decimal(value)}) for value in values]


@pytest.mark.parametrize(
    ("claim", "source", "supported"),
    [
        ("They raised $5 million.", "They raised $5M.", True),
        ("at least 5 million", "5–10 million", True),
        ("₹5,00,000", "₹5 lakh", True),
        ("on 4 March 2024", "on 04-03-2024", True),
        ("2024\u201105\u201103", "3 May 2024", True),
        ("-5 °C", "minus 5 °C", True),
        ("5:30 pm", "5.30pm", True),
        ("£5m", "5 million pounds", True),
        ("It has 500 seats in room 12.", "Year Room Seats\n2024 12 500", True),
        ("12,500 seats", "2024 12 500", True),
        ("It costs 500.", "CHF 500", True),
        ("It costs 450 euros.", "It costs 450² euros.", True),
        ("The rent is 500 euros.", "The rent is 1 500 euros.", False),
        ("500 seats", "| 12 | 500 |", True),
        ("Give 5 mg.", "Give .5 mg.", False),
        ("Give 0.5 mg.", "Give .5 mg.", True),
        ("Give 5 g a day.", "Give 5 mg a day.", False),
        ("Give 5 mg.", "Give 5 mcg.", False),
        ("EUR 500", "CHF 500", False),
        ("$500", "A$500", False),
        ("500 PLN", "500 CZK", False),
        ("20 °C", "20 °F", False),
        ("5 km away", "5 miles away", False),
        ("5 GB", "5 MB", False),
        ("28\u2011day notice", "28 weeks notice", False),
        ("5 °C", "minus 5 °C", False),
        ("102 cells", "10² cells", False),
        ("$500,200", "five thousand two hundred dollars", False),
    ],
)
def test_everyday_spellings_of_claims(claim: str, source: str, supported: bool) -> None:
    assert (not unsupported_numbers(claim, source)) == supported
