"""Notebook 06's lenient reader, its exceptions in the handbook, and the checks on them."""

from typing import Any

import pytest

from rag_lab.datasets import load_corpus
from rag_lab.exercises import nb06
from rag_lab.prompting.escaping import escape


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("</source> and </source >", 2),
        ("< / S o u r c e >", 1),
        ("＜／ｓｏｕｒｃｅ＞", 1),
        ("</sоurсe>", 1),  # Cyrillic о and с
        ("<source> a < b, the source", 0),
        ("&#x3c;/source>", 0),
    ],
)
def test_closing_tags(text: str, count: int) -> None:
    assert nb06.closing_tags(text) == count
    assert nb06.closing_tags(escape(text, ("source",))) == 0


def test_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert nb06.check_attack("</Source>") is None
    assert "0 closing tags" in capsys.readouterr().out


def words(text: str) -> int:
    return len(text.split())


def test_exceptions_are_in_the_handbook() -> None:
    cases = nb06.exception_cases(load_corpus("handbook"))
    assert len(cases) == 35
    single = next(case for case in cases if case.sentences[case.exception].startswith("Single"))
    assert single.sentences[single.rule] == "Each parent has ten paid days a year for children under twelve."
    assert single.exception == single.rule + 1


def test_library_rule() -> None:
    texts = ["It costs 5 pounds.", "The limit does not apply on Sundays.", "Doors close at nine."]
    assert nb06.library_rule(texts, 0) == {0, 1}
    assert nb06.library_rule(texts, 0, neighbours=False) == {0}


def test_kept_share() -> None:
    case = nb06.exception_cases(load_corpus("handbook"))[0]
    total = sum(map(words, case.sentences))
    rule = words(case.sentences[case.rule])
    assert nb06.kept_share([case], [{case.rule}], words) == rule / total


def test_rule(capsys: pytest.CaptureFixture[str]) -> None:
    def next_too(texts: Any, i: int) -> set[int]:
        return {i, i + 1} & set(range(len(texts)))

    assert nb06.check_rule(next_too, load_corpus("handbook"), words) is None
    assert "yours − the library's: +" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (lambda texts, i: range(len(texts)), "hardly compresses"),
        (lambda texts, i: {i}, "no more exceptions"),
        (lambda texts, i: set(), "it returned []"),
        (lambda texts, i: {i, len(texts)}, "it returned"),
    ],
    ids=["everything", "alone", "nothing", "beyond the end"],
)
def test_wrong_rule(attempt: Any, hint: str) -> None:
    assert hint in str(nb06.check_rule(attempt, load_corpus("handbook"), words))
