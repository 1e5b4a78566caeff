"""What makes a generated question useless: copies, duplicates, negatives with an answer."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.answering.extractive import ExtractiveReader
from rag_lab.evaluation.question_checks import copies, duplicate_of, model_check, sentence_check, speaks_of_passage
from rag_lab.llm.structured import InvalidJSON
from rag_lab.types import Chunk
from tests.support.answer_doubles import Scripted

PASSAGE = "Full-time staff have 28 working days a year. From the fifth year of service it is 30."


@pytest.mark.parametrize(
    ("question", "copied"),
    [
        ("How much vacation is there in the sixth year?", False),
        ("How many working days a year are there?", False),  # "working days a year": 4 terms of 8
        ("Do full-time staff have 28 working days a year?", True),
        ("From the fifth year of service it is what?", True),  # 8 terms in a row
        ("The fifth year of service?", True),  # all of it
        ("", False),
    ],
)
def test_copies(question: str, copied: bool) -> None:
    assert copies(question, PASSAGE) == copied


def test_copies_in_a_script_without_spaces() -> None:
    assert copies("全职员工每年有多少天假期", "全职员工每年有多少天假期？二十八天。")
    assert not copies("一年能休息多久？", "全职员工每年有二十八天假期。")


@given(st.text(min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_a_question_copies_itself_and_is_its_own_duplicate(question: str) -> None:
    assert duplicate_of(question, [("other", "zzz qqq"), ("same", question)]) == "same"
    if any(map(str.isalpha, question)):
        assert copies(question, question) or not question.isascii()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("How many vacation days do full-time staff get?", "how many VACATION days does full-time staff get", True),
        ("When does the office open?", "When does the office close?", False),
        ("How much rain fell in Bergen in May 2019?", "How much rain fell in Bergen in May 2020?", False),
        ("Are dogs allowed in the office?", "Is there a canteen?", False),
    ],
)
def test_duplicates(one: str, other: str, same: bool) -> None:
    assert (duplicate_of(one, [("q1", other)]) == "q1") == same
    assert duplicate_of(one, []) is None


def test_a_question_about_its_own_wording() -> None:
    assert speaks_of_passage("How many characters does this sentence contain?")
    assert not speaks_of_passage("How long is a sentence for theft?")


CHUNKS = [Chunk("a", 0, "Dogs are welcome.", 0, 17), Chunk("b", 0, PASSAGE, 0, len(PASSAGE))]


def verdict(answered: object, source: str, quote: object) -> str:
    return json.dumps({"answered": answered, "source": source, "quote": quote})


def test_a_model_must_quote_what_answers() -> None:
    quote = "From the fifth year of service it is 30"
    llm = Scripted(verdict(True, "S2", quote))
    assert model_check("How much later?", CHUNKS, llm) == (CHUNKS[1], quote)
    asked = json.loads(llm.prompts[0].turns[-1].text)
    assert [passage["text"] for passage in asked["passages"]] == [chunk.text for chunk in CHUNKS]


@pytest.mark.parametrize(
    ("answered", "source", "quote"),
    [
        (False, "", ""),
        (True, "S1", "From the fifth year of service it is 30"),  # not in S1
        (True, "S9", "Dogs are welcome."),
        (False, "S1", "Dogs are welcome."),
    ],
)
def test_a_verdict_without_a_quote_of_its_passage_finds_nothing(answered: bool, source: str, quote: str) -> None:
    assert model_check("?", CHUNKS, Scripted(verdict(answered, source, quote))) is None


@pytest.mark.parametrize(
    "text", ["", "yes", "[]", "{}", "null", "[" * 100_000, verdict("false", "S1", "x"), verdict(True, "S1", None)]
)
def test_no_json_is_no_verdict(text: str) -> None:
    with pytest.raises(InvalidJSON, match="scripted: The text is not JSON"):
        model_check("?", CHUNKS, Scripted(text))


class Letters:
    """TEST DOUBLE for an encoder: the share of a, b and c among a text's letters."""

    dimension = 3

    def encode(self, texts: list[str], kind: str = "passage") -> Any:
        import numpy as np

        counts = np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32) + 1e-6
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_the_sentence_check_goes_by_the_threshold() -> None:
    chunks = [Chunk("d", 0, "Aaaa bbb. Ccc cc.", 0, 17)]
    reader = ExtractiveReader(Letters())  # type: ignore[arg-type]
    assert sentence_check("cc", chunks, reader, 0.9) == (chunks[0], "Ccc cc.")
    assert sentence_check("abc", chunks, reader, 0.9) is None  # cosine with aaabbb: 6 / (4.243 * 1.732) = 0.82
