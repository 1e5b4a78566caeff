"""Numbers of a claim against its source. What is unsupported is read by eye."""

import pytest

from rag_lab.citations.validation import check_numbers, validate_citations
from rag_lab.text.numbers import unsupported_numbers
from tests.support.cited_sources import sources


def unsupported(claim: str, source: str) -> list[str]:
    return [number.text for number in unsupported_numbers(claim, source)]


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("1,000 staff", "1000 staff"),
        ("1000 staff", "۱۰۰۰ نفر"),
        ("۱۰۰۰ نفر", "one thousand people"),
        ("20% of it", "20 percent of it"),
        ("20 אחוזים", "百分之二十"),
        ("3.85 million people", "3 850 000 человек"),
        ("twelve months", "12 months"),
        ("12 months", "twelve months"),
        ("25 days", "עשרים וחמישה ימים"),
        ("20 days", "20 working days"),
        ("20 days", "| days | 20 |"),
        ("€1,250", "1.250 EUR"),
        ("on 1 March 2024", "2024-03-01"),
        ("1 марта", "March 1, 2024"),
        ("in March 2024", "on 1 March 2024"),
        ("in 2024", "on 1 March 2024"),
        ("2024年3月", "on 1 March 2024"),
        ("at 5 p.m.", "at 17:00"),
        ("3/4/2024", "4 March 2024"),
        ("1. Dogs may come", "Dogs may come"),
        ("- 2) Dogs may come", "Dogs may come"),
        ("A4 paper for one of them", "paper"),
        ("Nothing to count", ""),
    ],
)
def test_a_number_that_the_source_holds_in_any_form_is_supported(claim: str, source: str) -> None:
    assert unsupported(claim, source) == []


@pytest.mark.parametrize(
    ("claim", "source", "expected"),
    [
        ("Staff get 30 days and 5 more.", "Staff get 20 days and 5 more.", ["30 days"]),
        ("20 days", "20 weeks", ["20 days"]),
        ("20%", "20 days", ["20%"]),
        ("€20", "$20", ["€20"]),
        ("1,000", "1", ["1,000"]),
        ("2.5 days", "25 days", ["2.5 days"]),
        ("3.9 million", "3.85 million", ["3.9 million"]),
        ("on 1 March 2024", "on 2 March 2024", ["1 March 2024"]),
        ("on 1 March 2024", "on 1 March 2023", ["1 March 2024"]),
        ("on 1 March 2024", "on 1 March", ["1 March 2024"]),
        ("in April", "in May", ["April"]),
        ("at 5:00", "at 17:00", ["5:00"]),
        ("version 3.2.1", "version 3.2.2", ["3.2.1"]),
        ("30 ימי חופשה", "20 ימי חופשה", ["30 ימי"]),
        ("۳۰ روز", "۲۰ روز", ["۳۰ روز"]),
        ("тридцать дней", "двадцать дней", ["тридцать дней"]),
        ("三十天", "二十天", ["三十天"]),
        ("one week", "two weeks", ["one week"]),
        ("1. Dogs get 3 days", "Dogs", ["3 days"]),
    ],
)
def test_a_number_that_the_source_lacks_is_named(claim: str, source: str, expected: list[str]) -> None:
    assert unsupported(claim, source) == expected


def test_what_the_check_cannot_see() -> None:
    """Written down so that a change is noticed: nothing is converted, and a number may be another thing's."""
    assert unsupported("two weeks", "14 days") == ["two weeks"]
    assert unsupported("40 days in all", "20 days, then 20 days") == ["40 days"]
    assert unsupported("Dogs may stay 5 days", "Dogs may stay 3 days, cats 5 days") == []


def test_each_sentence_is_held_against_what_it_cites() -> None:
    given = sources("Staff get 20 days.", "Interns get 10 days.", title="Rules of 2024")
    answer = "In 2024, staff get 10 days [S1]. Both get 10 or 20 [S1][S2]. Guests get 99. Cats get 7 [S9]."
    report = validate_citations(answer, given)
    ((sentence, numbers),) = check_numbers(report)
    assert sentence == report.sentences[0]
    (number,) = numbers
    assert answer[sentence.start + number.start : sentence.start + number.end] == number.text == "10 days"


def test_the_digits_of_a_marker_are_no_number() -> None:
    report = validate_citations("Staff get leave [S1].", sources("Staff get leave."))
    assert check_numbers(report) == []


def test_hostile_text_takes_linear_time() -> None:
    claim = " ".join(f"{i} days on {i % 28 + 1} March {i % 9000 + 1000}" for i in range(10_000))
    assert unsupported(claim, claim) == []


def test_a_digit_newer_than_pythons_tables_is_no_number() -> None:
    assert unsupported_numbers("\U00016d70\U00016d71 euros", "nothing") == []
    assert [n.text for n in unsupported_numbers("\U00016d70 and 7", "nothing")] == ["7"]
