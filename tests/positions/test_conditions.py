from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rag_lab.datasets import load_corpus
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Completion, Usage
from rag_lab.llm.spending import OverBudget
from rag_lab.positions.curves import position_curve, shuffle_positions
from rag_lab.positions.key_value import KeyValueTask
from rag_lab.positions.multi_document import MultiDocumentTask, baselines
from rag_lab.storage import Store
from tests.support.local_model import smollm2
from tests.support.messages_server import (
    Fault,
    MessagesServer,
    running_server,  # noqa: F401 (a fixture)
)
from tests.support.position_stub import CurveReader

POSITIONS = [0, 5, 10, 15, 19]


@pytest.mark.parametrize(
    ("chances", "shape"),
    [
        ([0.9, 0.4, 0.2, 0.4, 0.9], "U-shaped"),
        ([0.9, 0.7, 0.5, 0.3, 0.1], "primacy"),
        ([0.1, 0.3, 0.5, 0.7, 0.9], "recency"),
        ([0.5] * 5, "flat"),
    ],
)
def test_a_known_curve_is_recovered(chances: list[float], shape: str) -> None:
    known = dict(zip(POSITIONS, chances, strict=True))
    curve = position_curve(CurveReader(known), KeyValueTask(20), reversed(POSITIONS), n=150)  # type: ignore[arg-type]
    assert curve.positions == tuple(POSITIONS)
    for interval, chance in zip(curve.intervals(), chances, strict=True):
        assert abs(interval.value - chance) < 0.13  # three standard errors of 150 draws
    assert curve.classify().shape == shape
    assert [i.value for i in curve.intervals("log_likelihood")] == pytest.approx([-5 + 4 * c for c in chances])
    assert shuffle_positions(curve).classify().shape == "flat"


def test_a_document_curve_is_recovered() -> None:
    task = MultiDocumentTask(load_corpus("cities"), 5)
    reader = CurveReader({0: 0.9, 1: 0.2, 2: 0.2, 3: 0.2, 4: 0.9}, separator="Document [")
    reader.chances = {place + 1: chance for place, chance in reader.chances.items()}  # the instruction comes first
    curve = position_curve(reader, task, range(5), n=60)
    assert curve.classify().shape == "U-shaped"
    assert curve.questions == tuple(item.id for item in task.items(60))


def test_a_stopped_run_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    class Stops(CurveReader):
        def generate_and_score(self, *args, **kwargs) -> Iterator:  # type: ignore[no-untyped-def]
            for number, reply in enumerate(super().generate_and_score(*args, **kwargs)):
                if number == 7:
                    raise KeyboardInterrupt
                yield reply

    chances = dict.fromkeys(POSITIONS, 0.5)
    with pytest.raises(KeyboardInterrupt):
        position_curve(Stops(chances), KeyValueTask(20), POSITIONS, n=4, store=Store(tmp_path / "x.jsonl"))
    reader = CurveReader(chances)
    curve = position_curve(reader, KeyValueTask(20), POSITIONS, n=4, store=Store(tmp_path / "x.jsonl"))
    assert reader.asked == 4 * 5 - 7
    assert np.array_equal(curve.accuracy, position_curve(reader, KeyValueTask(20), POSITIONS, n=4).accuracy)


def test_positions_that_a_task_lacks_are_named() -> None:
    for positions in ([20], [-1], []):
        with pytest.raises(ValueError, match="0 to 19"):
            position_curve(CurveReader({}), KeyValueTask(20), positions, n=1)


def test_smollm2_answers_and_rates_as_apart() -> None:
    llm = smollm2()
    task = KeyValueTask(5)
    curve = position_curve(llm, task, [0, 4], n=2)
    for i, item in enumerate(task.items(2)):
        for j, position in enumerate([0, 4]):
            prompt = task.prompt(item, position)
            assert curve.answers[i][j] == llm.complete(prompt, 24, stop=("\n",)).text
            assert curve.log_likelihood is not None
            expected = llm.log_likelihood(prompt, task.gold(item))
            assert curve.log_likelihood[i, j] == pytest.approx(expected, abs=1e-3)


def test_baselines_are_asked_without_and_with_the_gold_alone() -> None:
    task = MultiDocumentTask(load_corpus("cities"), 5)
    items = {item.question: item for item in task.items(4)}

    class Reader(CurveReader):
        def generate_and_score(self, prompts, expected, *args):  # type: ignore[no-untyped-def]
            for i, prompt in enumerate(prompts):
                text = prompt.turns[-1].text
                item = next(item for question, item in items.items() if question in text)
                assert not any(chunk.text in text for chunk in item.distractors)
                found = item.passage.text in text
                yield i, Completion(item.answers[-1] if found else "No idea.", Usage(), "end_turn"), -1.0

    outcomes = baselines(Reader({}), task, 4)
    assert outcomes.conditions == ("closed book", "oracle")
    assert outcomes.accuracy.tolist() == [[0.0, 1.0]] * 4


def test_claude_is_estimated_asked_once_and_its_errors_are_counted(
    messages_server: MessagesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    task = KeyValueTask(5)
    first, _second, third = task.items(3)
    answers = {
        task.prompt(item, p).turns[0].blocks[-1].text: task.gold(item) for item in (first, third) for p in (0, 2, 4)
    }
    messages_server.reply = lambda text: answers.get(text, "I see no such code.")
    messages_server.faults = [Fault("status", 400, holds=f"code for the {third.pair[0]} office?")]
    llm = ClaudeLLM("claude-haiku-5-5")
    curve = position_curve(llm, task, [0, 2, 4], n=3)
    assert "Estimate: " in capsys.readouterr().err
    assert curve.log_likelihood is None
    assert curve.model == llm.name
    assert curve.accuracy[0].tolist() == [1, 1, 1]
    assert curve.accuracy[1].tolist() == [0, 0, 0]
    assert list(curve.errors) == [(third.id, 0)]
    assert "400" in curve.errors[third.id, 0]
    # Left out with its reason, not scored as wrong: two questions are left, one right and one wrong everywhere.
    assert [(interval.value, interval.n) for interval in curve.intervals()] == [(0.5, 2)] * 3
    assert messages_server.peak <= 4
    before = len(messages_server.asked())
    again = position_curve(llm, task, [0, 2, 4], n=3)
    assert len(messages_server.asked()) - before == 1  # what had failed
    assert again.errors == {}
    assert again.accuracy[2].tolist() == [1, 1, 1]


def test_claude_is_not_asked_beyond_the_cap(messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_MAX_USD", "0")
    with pytest.raises(OverBudget):
        position_curve(ClaudeLLM("claude-haiku-5-5"), KeyValueTask(5), [0], n=1)
    assert messages_server.billed == []


@pytest.mark.parametrize("other", [None, "smollm2", 42, LocalLLM])
def test_what_is_not_a_model_is_refused(other: object) -> None:
    with pytest.raises(TypeError, match=r"is not a language model: load one with LocalLLM.load\("):
        position_curve(other, KeyValueTask(5), [0], 1)
