import random

import pytest

from rag_lab.llm.prompt import Completion, Usage
from rag_lab.positions.ordering import ORDERS, Ranking, chunk_count_experiment, ordering_experiment, rank_passages
from rag_lab.prompting.build import REFUSAL
from rag_lab.types import Chunk, GoldSpan, Hit, Question
from tests.support.position_stub import CurveReader

CHUNKS = tuple(Chunk(f"d{i}", 0, f"passage {i}", 0, 9) for i in range(5))


def ranking(name: str, gold: int | None, count: int = 5) -> Ranking:
    """Passages 0 to count - 1 in rank order; the answer is the text of the gold one."""
    held = GoldSpan(f"d{gold}", 0, 9)
    question = Question(name, f"which passage, {name}?", (f"passage {gold}",), (held,))
    return Ranking(question, CHUNKS[:count], gold)


@pytest.mark.parametrize(
    ("order", "gold", "expected"),
    [
        ("ranked", 1, [0, 1, 2, 3, 4]),
        ("reversed", 1, [4, 3, 2, 1, 0]),
        ("edges", 1, [0, 2, 4, 3, 1]),
        ("gold in the middle", 0, [1, 2, 0, 3, 4]),
        ("gold in the middle", 2, [0, 1, 2, 3, 4]),
        ("gold in the middle", 4, [0, 1, 4, 2, 3]),
    ],
)
def test_orders_by_hand(order: str, gold: int, expected: list[int]) -> None:
    assert ORDERS[order](ranking("q", gold), random.Random(0)) == [CHUNKS[i] for i in expected]


def test_shuffled_is_the_same_for_a_seed_and_loses_nothing() -> None:
    shuffled = [tuple(ORDERS["shuffled"](ranking("q", 0), random.Random(seed))) for seed in (0, 0, 1, 2, 3)]
    assert shuffled[0] == shuffled[1]
    assert any(order != shuffled[0] for order in shuffled)
    assert all(sorted(chunk.id for chunk in order) == [f"d{i}#0" for i in range(5)] for order in shuffled)


def test_rankings_know_the_place_of_the_gold() -> None:
    def retriever(question: str, k: int) -> list[Hit]:
        return [Hit(chunk, 1.0, i) for i, chunk in enumerate(CHUNKS[:k], 1)]

    absent = Question("none", "?", (), ())
    half = Question("half", "?", ("x",), (GoldSpan("d1", 0, 9), GoldSpan("d2", 0, 9)))  # in no one passage
    found, split = rank_passages(retriever, [ranking("q", 3).question, absent, half], 5)
    assert (found.question.id, found.gold, split.question.id, split.gold) == ("q", 3, "half", None)
    (cut,) = rank_passages(retriever, [ranking("q", 3).question], 2)
    assert cut.gold is None
    assert len(cut.chunks) == 2
    with pytest.raises(ValueError, match="k is 0"):
        rank_passages(retriever, [], 0)


class Recent(CurveReader):
    """TEST DOUBLE: sees only what stands in the last of the sources, and refuses where that is not the answer."""

    def generate_and_score(self, prompts, expected, *args):  # type: ignore[no-untyped-def]
        for i, prompt in enumerate(prompts):
            self.asked += 1
            seen = expected[i] in prompt.turns[-1].text.split("<source ")[-1]
            yield i, Completion(expected[i] if seen else REFUSAL, Usage(), "end_turn"), -1.0 if seen else -9.0


def test_a_reader_of_the_last_passage_gains_by_the_reversed_order() -> None:
    rankings = [*(ranking(f"q{i}", 0) for i in range(6)), ranking("deep", 4), ranking("lost", None)]
    outcomes = ordering_experiment(Recent({}), rankings)
    assert outcomes.conditions == ("ranked", "reversed", "edges", "shuffled", "gold in the middle")
    assert sorted(outcomes.questions) == ["deep", *(f"q{i}" for i in range(6))]  # not "lost": no gold to move
    ranked, reverse, edges, _, middle = (round(i.value, 3) for i in outcomes.intervals())
    assert (ranked, reverse, edges, middle) == (round(1 / 7, 3), round(6 / 7, 3), 0.0, 0.0)
    assert outcomes.difference("reversed", "ranked").value == pytest.approx(5 / 7)
    assert outcomes.difference("reversed", "ranked", "refused").value == pytest.approx(-5 / 7)
    assert outcomes.difference("reversed", "ranked", "log_likelihood").value == pytest.approx(8 * 5 / 7)


def test_more_passages_can_be_fewer_answers() -> None:
    rankings = [ranking("a", 0), ranking("b", 1), ranking("lost", None)]
    outcomes = chunk_count_experiment(Recent({}), rankings, counts=(2, 1, 5))
    assert outcomes.conditions == (1, 2, 5)
    # k = 1: a; k = 2: b; k = 5: none, since passage 4 stands last. "lost" is asked too, and wrong.
    assert [round(i.value, 3) for i in outcomes.intervals()] == [0.333, 0.333, 0.0]
    assert {i.n for i in outcomes.intervals()} == {3}


def test_the_question_can_stand_before_the_sources_too() -> None:
    class Sees(Recent):
        def generate_and_score(self, prompts, expected, *args):  # type: ignore[no-untyped-def]
            self.counts = [prompt.turns[-1].text.count("which passage") for prompt in prompts]
            return super().generate_and_score(prompts, expected, *args)

    for aware, count in ((False, 1), (True, 2)):
        reader = Sees({})
        outcomes = ordering_experiment(reader, [ranking("a", 0)], ("ranked",), query_aware=aware)
        assert reader.counts == [count]
        assert outcomes.task.endswith("query-aware") is aware


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="no order 'random'"):
        ordering_experiment(Recent({}), [ranking("a", 0)], ("random",))
    with pytest.raises(ValueError, match="orders is empty"):
        ordering_experiment(Recent({}), [ranking("a", 0)], ())
    with pytest.raises(ValueError, match="n is 2; 1 of the questions"):
        ordering_experiment(Recent({}), [ranking("a", 0), ranking("lost", None)], n=2)
    with pytest.raises(ValueError, match="a has 3 passages, but 5"):
        chunk_count_experiment(Recent({}), [ranking("a", 0, 3)], (1, 5))
    with pytest.raises(ValueError, match="counts are"):
        chunk_count_experiment(Recent({}), [ranking("a", 0)], (0, 1))
