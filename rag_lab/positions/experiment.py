"""How well a model uses a passage, by where in the prompt it stands (Liu et al. 2023, arXiv 2307.03172)."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rag_lab.llm.prompt import Prompt
from rag_lab.positions.conditions import PromptSet, run_conditions
from rag_lab.positions.curves import ConditionResults, PositionCurve
from rag_lab.positions.multi_document import DocumentItem, MultiDocumentTask
from rag_lab.storage import Store


class Task(Protocol):
    """What positions are measured on: ``size`` places for the gold, and answers of at most ``max_tokens``."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    def items(self, n: int, seed: int = 0) -> Sequence[Any]: ...
    def prompt(self, item: Any, position: int) -> Prompt: ...
    def gold(self, item: Any) -> str: ...
    def accepted(self, item: Any) -> tuple[str, ...]: ...


def position_curve(
    llm: Any, task: Task, positions: Sequence[int], n: int, seed: int = 0, store: Store | None = None
) -> PositionCurve:
    """Ask the task's ``n`` questions (the same for a ``seed``) with the gold at each of ``positions``.

    ``llm`` is a LocalLLM, which gives the likelihood of the gold answer too, or a ClaudeLLM, whose calls are
    estimated first, capped, recorded, four at a time; one that fails is an error of the curve. With ``store`` a local
    model's answers are kept as they come, and a second run reads only what is missing. Accuracy is best-subspan
    exact match of the answer's first line (``squad``). ValueError for positions that the task does not have.
    """
    positions = tuple(sorted(set(positions)))
    if not positions or positions[0] < 0 or positions[-1] >= task.size:
        raise ValueError(f"positions {list(positions)} do not lie in 0 to {task.size - 1}, which {task.name} has.")
    asked = [
        PromptSet(item.id, tuple(task.prompt(item, p) for p in positions), task.gold(item), task.accepted(item))
        for item in task.items(n, seed)
    ]
    return run_conditions(PositionCurve, llm, task.name, positions, asked, task.max_tokens, store)


def baselines(
    llm: Any, task: MultiDocumentTask, n: int, seed: int = 0, store: Store | None = None
) -> ConditionResults:
    """The questions of ``position_curve`` with no document (``closed book``) and the gold alone (``oracle``)."""
    ways: dict[str, Callable[[DocumentItem], Prompt]] = {"closed book": task.closed_book, "oracle": task.oracle}
    asked = [
        PromptSet(item.id, tuple(way(item) for way in ways.values()), task.gold(item), task.accepted(item))
        for item in task.items(n, seed)
    ]
    return run_conditions(ConditionResults, llm, task.name, tuple(ways), asked, task.max_tokens, store)
