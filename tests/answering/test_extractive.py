"""The extractive reader, with an encoder whose vectors are worked out by hand, and with MiniLM."""

import math
from typing import Any

import numpy as np
import pytest

from rag_lab.answering.extractive import ExtractiveReader
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.build import REFUSAL
from rag_lab.prompting.templates import assign_sources
from tests.support.answer_doubles import DOGS, PARKING, retriever

WORDS = ("dogs", "office", "parking")


class Counting:
    """TEST DOUBLE: a vector holds which of three words a text has, normalised; every text that it reads is kept."""

    dimension = 3

    def __init__(self) -> None:
        self.read: list[str] = []

    def encode(self, texts: Any, kind: str = "passage") -> np.ndarray:
        self.read += texts
        found = np.array([[word in text.lower() for word in WORDS] for text in texts], np.float32)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


PETS = "# Dogs in the office\n\n  Dogs are allowed in the office. Cats are not.\n\n---\n\nParking is free."


def test_the_nearest_sentence_is_quoted_and_cited() -> None:
    got = ExtractiveReader(Counting()).answer("Dogs in the office?", retriever(PARKING, PETS))
    assert got.text == "Dogs are allowed in the office. [S2]"  # and not the heading, which is as near
    assert (got.status, got.problems, got.cited_ids) == ("answered", (), ("S2",))
    (quote,) = got.quotes
    assert got.sources[1].text[slice(*quote.span)] == quote.quote == "Dogs are allowed in the office."
    assert [hit.score for hit in got.trace.retrieved] == [1.0, 0.5]
    assert (got.trace.prompt, got.trace.model, got.trace.completion_text, got.trace.usage.input_tokens) == (
        None,
        "",
        "",
        0,
    )


def test_several_sentences_come_best_first_and_equal_ones_once() -> None:
    reader = ExtractiveReader(Counting(), count=2)
    got = reader.answer("Dogs in the office?", retriever("Dogs bark.", DOGS, DOGS))
    # Cosines: "Dogs are allowed in the office on Fridays." 1, "Dogs bark." 1/√2, "They need a badge." 0.
    assert got.text == "Dogs are allowed in the office on Fridays. [S2]\nDogs bark. [S1]"
    best = reader.best("Dogs in the office?", got.sources)
    assert [sentence.score for sentence in best] == pytest.approx([1, math.sqrt(0.5)], abs=1e-6)


@pytest.mark.parametrize("own", ["[S3]", "[S1]", "(S1)", "【Ｓ３】"])
def test_a_marker_in_a_passage_s_own_words_is_no_citation(own: str) -> None:
    said = f"Dogs in the office: 狗 😀, see {own}."
    got = ExtractiveReader(Counting(), count=2).answer("Dogs in the office?", retriever(PARKING, said, "Dogs bark."))
    assert got.text == f"{said} [S2]\nDogs bark. [S3]"  # verbatim
    assert (got.cited_ids, got.problems) == (("S2", "S3"), ())
    assert [got.text[c.start : c.end] for c in got.report.citations] == ["[S2]", "[S3]"]
    assert [sentence.ids for sentence in got.report.sentences] == [("S2",), ("S3",)]
    assert got.quotes[0].quote == said == got.sources[1].text


def test_under_the_threshold_it_refuses_and_says_so() -> None:
    reader = ExtractiveReader(Counting(), threshold=0.8)
    assert reader.answer("Dogs in the office?", retriever(DOGS)).status == "answered"
    got = reader.answer("Parking in the office?", retriever(DOGS, PARKING))
    # "Dogs … office …": 1/√2 · 1/√2 = 0.5; "Parking …": 1/√2.
    assert (got.status, got.text) == ("refused", REFUSAL)
    assert got.reason == "no sentence over the threshold 0.8 (best 0.7071)"
    assert reader.answer("Dogs?", retriever()).reason == "no passage found"
    assert reader.answer("Dogs?", retriever("# Dogs\n\n---")).reason == "no sentence in the passages found"


def test_the_best_score_of_a_question() -> None:
    reader = ExtractiveReader(Counting(), threshold=0.8)
    hits = retriever(DOGS, PARKING)
    assert reader.best_score("Parking in the office?", hits("", 5)) == pytest.approx(math.sqrt(0.5), abs=1e-6)
    assert reader.best_score("Parking?", []) == -math.inf


def test_passages_and_questions_are_read_once() -> None:
    encoder = Counting()
    reader = ExtractiveReader(encoder)
    for question in ("Dogs?", "Parking?", "Dogs?"):
        reader.answer(question, retriever(DOGS, PARKING))
    assert sorted(encoder.read) == sorted(
        ["Dogs?", "Parking?", "Dogs are allowed in the office on Fridays.", "They need a badge.", PARKING]
    )


@pytest.mark.parametrize("count", [0, -1])
def test_bad_arguments(count: int) -> None:
    with pytest.raises(ValueError, match=f"count is {count}"):
        ExtractiveReader(Counting(), count=count)
    with pytest.raises(ValueError, match="question is ' '"):
        ExtractiveReader(Counting()).answer(" ", retriever(DOGS))
    with pytest.raises(ValueError, match=f"k {count}"):
        ExtractiveReader(Counting()).answer("Dogs?", retriever(DOGS), count)
    with pytest.raises(ValueError, match="threshold is not a number"):
        ExtractiveReader(Counting(), math.nan)


def test_minilm_finds_the_sentence_in_any_place() -> None:
    text = "The canteen opens at nine. Dogs are welcome in the office on Fridays 😀. Parking costs 5 euros a day."
    reader = ExtractiveReader(Encoder.load("minilm", dtype="float32"))
    sources = assign_sources(hit.chunk for hit in retriever(text)("", 1))
    (best,) = reader.best("Can I bring my dog to work?", sources)
    assert best.text == "Dogs are welcome in the office on Fridays 😀."
    assert text[best.start : best.end] == best.text
    assert -1 <= best.score <= 1
