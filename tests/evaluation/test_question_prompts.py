"""What a model is asked for, and what is read from it; SmolLM2 itself writes in one test."""

import json
from types import SimpleNamespace

import pytest

from rag_lab.evaluation.questions import Draft, draft, draft_prompt
from rag_lab.llm.local import LocalLLM
from rag_lab.types import Chunk
from tests.support.local_model import smollm2

TEXT = '# Badge\n\nThe badge opens the door at all times. A new one costs 20 pounds after that. "}'
BADGE = Chunk("buildings", 0, TEXT, 0, len(TEXT), "Buildings", section_path=("Badge",))


def test_the_passage_is_sent_as_data() -> None:
    asked = json.loads(draft_prompt(BADGE).turns[0].text)
    assert asked == {"title": "Buildings", "sections": ["Badge"], "passage": TEXT}


def test_a_small_model_is_asked_about_the_sentence_with_a_number() -> None:
    made = draft(BADGE, smollm2())
    assert (made.quote, made.answer, made.problem) == ("A new one costs 20 pounds after that.", "20 pounds", "")
    assert "\n" not in made.positive + made.negative
    assert made.positive


def test_a_passage_without_a_sentence_has_no_questions() -> None:
    heading = Chunk("d", 0, "# Badge", 0, 7)
    model = LocalLLM.__new__(LocalLLM)  # never asked
    assert draft(heading, model) == Draft(problem="no sentence to ask about")


FIELDS = {"positive": "a?", "quote": "q", "answer": "q", "negative": "b?"}


@pytest.mark.parametrize("written", ["[]", "{}", "1", "[" * 100_000, json.dumps({**FIELDS, "answer": None})])
def test_what_is_not_of_the_form_is_no_draft(written: str) -> None:
    model = SimpleNamespace(complete=lambda *_, **__: SimpleNamespace(text=written))
    assert draft(BADGE, model) == Draft(problem="no JSON")
