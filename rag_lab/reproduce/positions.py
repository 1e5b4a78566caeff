"""The tables of Lost in the Middle (Liu et al. 2023): accuracy in percent by the position of the answer."""

from rag_lab import settings
from rag_lab.llm.load import is_paid
from rag_lab.models.hub import BUNDLED
from rag_lab.positions.conditions import ConditionResults
from rag_lab.positions.curves import PositionCurve, position_curve
from rag_lab.positions.key_value import KeyValueTask
from rag_lab.positions.multi_document import MultiDocumentTask, baselines
from rag_lab.reproduce.models import Models
from rag_lab.results import Comparison, Published, exactly, published
from rag_lab.storage import Store

PAIRS = 140
EXAMPLES = 500  # of the key-value task
# The paper's curve that is shown for models without a row in the paper; GPT-3.5's is the U of the abstract.
DEFAULT_ROW = "GPT-3.5-Turbo-16K"
DEFAULT_PAIRS_ROW = "MPT-30B-Instruct"


def documents(models: Models, count: int) -> list[Comparison]:
    """Tables 5, 6 and 7: the answer at several positions among 10, 20 or 30 documents."""
    paper = published(f"litm_{count}docs")
    task = MultiDocumentTask.natural_questions(count)
    n = models.sample or task.questions
    curve = position_curve(models.load_llm(), task, paper.values["positions"], n, store=_store())
    row = _paper_row(paper, models, DEFAULT_ROW)
    return _rows(curve, row, paper.values[row])


def key_values(models: Models) -> list[Comparison]:
    """The right value among 140 pairs at several positions.

    The window of a bundled model is too short for 140 pairs of UUIDs, so it reads sentences instead.
    """
    paper = published("litm_kv_repo")
    task = KeyValueTask(PAIRS, "sentences" if models.llm in BUNDLED else "json")
    n = models.sample or EXAMPLES
    curve = position_curve(models.load_llm(), task, paper.values["positions"], n, store=_store())
    row = _paper_row(paper, models, DEFAULT_PAIRS_ROW)
    return _rows(curve, row, [round(100 * share, 4) for share in paper.values[row]])


def closed_book_and_oracle(models: Models) -> list[Comparison]:
    """Table 1: no document (closed book) and only the document with the answer (oracle)."""
    paper = published("litm_closedbook_oracle")
    task = MultiDocumentTask.nq_oracle(10)
    found = baselines(models.load_llm(), task, models.sample or task.questions, store=_store())
    row = _paper_row(paper, models, "GPT-3.5-Turbo-16K-0613")
    closed, oracle = paper.values[row]
    levels = zip(found.conditions, (closed, oracle), found.intervals(), strict=True)
    gain = found.difference("oracle", "closed book").scaled(100)
    return [
        *(Comparison(name, figure, level.scaled(100), shown=False) for name, figure, level in levels),
        Comparison(f"oracle − closed book (published: {row})", round(oracle - closed, 4), gain, is_gain=True),
        *_failed(found),
    ]


def _store() -> Store:
    return Store(settings.cache_folder() / "positions.jsonl")


def _paper_row(paper: Published, models: Models, default: str) -> str:
    """The paper's row whose name starts like the model's (for Claude the first of Claude), else ``default``."""
    name = "claude" if is_paid(models.llm) else models.llm.rsplit("/", 1)[-1].lower()
    rows = (row for row in paper.values if row.split("-")[0].lower() == name.split("-")[0])
    return next(rows, default)


def _rows(curve: PositionCurve, row: str, figures: list[float]) -> list[Comparison]:
    """Each position, then first − middle and last − middle, beside the figures of the paper's ``row``."""
    rows = [
        Comparison(f"position {position}", figure, interval.scaled(100), shown=False)
        for position, figure, interval in zip(curve.positions, figures, curve.intervals(), strict=True)
    ]
    middle = len(figures) // 2
    for name, end in (("first", 0), ("last", -1)):
        measured = curve.difference(curve.positions[end], curve.positions[middle]).scaled(100)
        gain = round(figures[end] - figures[middle], 4)
        rows.append(Comparison(f"{name} − middle (published: {row})", gain, measured, is_gain=True))
    return rows + _failed(curve)


def _failed(found: ConditionResults) -> list[Comparison]:
    """How many questions were left out because a call failed; no row if none was."""
    count = int((~found.complete).sum())
    return [Comparison("questions left out: a call failed", None, exactly(count), shown=False)] if count else []
