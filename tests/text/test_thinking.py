"""Thoughts and answers."""

import pytest

from rag_lab.text.answer_matching import best_subspan_em
from rag_lab.text.thinking import split_thinking


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("Paris.", "", "Paris."),
        ("<think>\nS1 says so.\n</think>\n\nParis. ", "S1 says so.", "Paris. "),
        ("S1 says so.</think> Paris.", "S1 says so.", "Paris."),
        ("<think>\n\n</think>\nParis.", "", "Paris."),
        ("<think>It was cut", "It was cut", ""),
        ("I think <b>so</b>.", "", "I think <b>so</b>."),
    ],
)
def test_thoughts_are_no_answer(text: str, thinking: str, answer: str) -> None:
    assert split_thinking(text) == (thinking, answer)


def test_positions_judge_the_first_line_after_the_thoughts() -> None:
    assert best_subspan_em("<think>\nok\n</think>\nParis\nRome", ["Paris"]) == 1.0
    assert best_subspan_em("<think>\nParis\n</think>\nRome", ["Paris"]) == 0.0
