"""Lost in the Middle's tables (Liu et al. 2023): accuracy by where the answer stands."""

from rag_lab import settings
from rag_lab.datasets import KV_FILE
from rag_lab.llm.load import is_paid
from rag_lab.metrics import Interval
from rag_lab.models.hub import BUNDLED
from rag_lab.positions.curves import ConditionResults, PositionCurve
from rag_lab.positions.experiment import Task, baselines, position_curve
from rag_lab.positions.key_value import KeyValueTask
from rag_lab.positions.multi_document import MultiDocumentTask
from rag_lab.reproduce.models import Models
from rag_lab.results import Comparison, Published, exactly, in_percent, published
from rag_lab.storage import Store

PAIRS = 140
EXAMPLES = 500  # of the key-value task
OTHERS = "GPT-3.5-Turbo-16K"  # the curve that models of no row of their own are put beside: the U of the abstract
OTHERS_PAIRS = "MPT-30B-Instruct"


def ten_documents(models: Models) -> list[Comparison]:
    """Table 5: positions 0, 4 and 9 of 10 documents, accuracy in percent."""
    return _documents(10, models)


def twenty_documents(models: Models) -> list[Comparison]:
    """Table 6: positions 0, 4, 9, 14 and 19 of 20 documents, accuracy in percent."""
    return _documents(20, models)


def thirty_documents(models: Models) -> list[Comparison]:
    """Table 7: positions 0, 4 to 24 and 29 of 30 documents, accuracy in percent."""
    return _documents(30, models)


def key_values(models: Models) -> list[Comparison]:
    """The right value among 140 pairs, by position, accuracy in percent.

    A bundled model, whose window does not hold 140 pairs of UUIDs, reads sentences in their place.
    """
    paper = published("litm_kv_repo")
    task = KeyValueTask(PAIRS, "json" if key_value_file(models) else "sentences")
    curve = _curve(models.load_llm(), task, paper.values["positions"], models.sample or EXAMPLES)
    row = _row_of(paper, models, OTHERS_PAIRS)
    return _rows(curve, row, in_percents(paper.values[row]))


def key_value_file(models: Models) -> str:
    """The paper's file that ``key_values`` reads where a data folder has it; "" for a model that reads sentences."""
    return "" if models.llm in BUNDLED else KV_FILE.format(PAIRS)


def in_percents(shares: list[float]) -> list[float]:
    """A curve of shares in percent."""
    return [round(100 * share, 4) for share in shares]


def closed_book_and_oracle(models: Models) -> list[Comparison]:
    """Table 1: accuracy in percent with no document and with the one that answers."""
    paper = published("litm_closedbook_oracle")
    task = MultiDocumentTask.nq_oracle(10)
    llm = models.load_llm()
    outcomes = baselines(llm, task, models.sample or task.questions, store=_store())
    row = _row_of(paper, models, "GPT-3.5-Turbo-16K-0613")
    closed, oracle = paper.values[row]
    figures = dict(zip(outcomes.conditions, outcomes.intervals(), strict=True))
    gain = outcomes.difference("oracle", "closed book")
    return [
        Comparison("closed book", closed, in_percent(figures["closed book"]), shown=False),
        Comparison("oracle", oracle, in_percent(figures["oracle"]), shown=False),
        Comparison(
            f"oracle − closed book (published: {row})", round(oracle - closed, 4), in_percent(gain), is_gain=True
        ),
        *_failed(outcomes),
    ]


def _documents(documents: int, models: Models) -> list[Comparison]:
    paper = published(f"litm_{documents}docs")
    task = MultiDocumentTask.natural_questions(documents)
    curve = _curve(models.load_llm(), task, paper.values["positions"], models.sample or task.questions)
    row = _row_of(paper, models, OTHERS)
    return _rows(curve, row, paper.values[row])


def _curve(llm: object, task: Task, positions: list[int], n: int) -> PositionCurve:
    return position_curve(llm, task, positions, n, store=_store())


def _store() -> Store:
    return Store(settings.cache_folder() / "positions.jsonl")


def _row_of(paper: Published, models: Models, otherwise: str) -> str:
    """The paper's row for the model: its own where its name begins alike, Claude's first, else ``otherwise``."""
    name = models.llm.rsplit("/", 1)[-1].lower()
    if is_paid(models.llm):
        name = "claude"
    alike = (row for row in paper.values if row.split("-")[0].lower() == name.split("-")[0])
    return next(alike, otherwise)


def _rows(curve: PositionCurve, row: str, figures: list[float]) -> list[Comparison]:
    """Each position, and by how much the first, the last and the middle differ, beside the paper's ``row``."""
    rows = [
        Comparison(f"position {position}", figure, in_percent(interval), shown=False)
        for position, figure, interval in zip(curve.positions, figures, curve.intervals(), strict=True)
    ]
    middle = len(figures) // 2
    for name, place in (("first", 0), ("last", -1)):
        measured: Interval = curve.difference(curve.positions[place], curve.positions[middle])
        gain = round(figures[place] - figures[middle], 4)
        rows.append(Comparison(f"{name} − middle (published: {row})", gain, in_percent(measured), is_gain=True))
    return rows + _failed(curve)


def _failed(outcomes: ConditionResults) -> list[Comparison]:
    """How many questions were left out because a call failed; no row where none was."""
    count = int((~outcomes.complete).sum())
    return [Comparison("questions left out: a call failed", None, exactly(count), shown=False)] if count else []
