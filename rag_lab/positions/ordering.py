"""The order and the number of retrieved passages: what either does to the answer."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_lab.metrics import span_recall
from rag_lab.positions.conditions import PromptSet, run_conditions
from rag_lab.positions.curves import ConditionResults
from rag_lab.prompting.build import build_prompt, order_for_long_context
from rag_lab.prompting.templates import Template, assign_sources
from rag_lab.storage import Store
from rag_lab.types import Chunk, Question, Retriever

MAX_TOKENS = 64


@dataclass(frozen=True)
class Ranking:
    """A question with its passages, best first, and the place of the gold among them (None: it was not found)."""

    question: Question
    chunks: tuple[Chunk, ...]
    gold: int | None


Order = Callable[[Ranking, random.Random], list[Chunk]]


def _shuffled(ranking: Ranking, chance: random.Random) -> list[Chunk]:
    return chance.sample(ranking.chunks, len(ranking.chunks))


def _gold_in_middle(ranking: Ranking, chance: random.Random) -> list[Chunk]:
    """The gold alone is moved, to the place with as many passages before it as behind it (or one more before)."""
    assert ranking.gold is not None
    rest = [chunk for i, chunk in enumerate(ranking.chunks) if i != ranking.gold]
    middle = len(ranking.chunks) // 2
    return [*rest[:middle], ranking.chunks[ranking.gold], *rest[middle:]]


ORDERS: dict[str, Order] = {
    "ranked": lambda ranking, chance: list(ranking.chunks),
    "reversed": lambda ranking, chance: list(reversed(ranking.chunks)),
    "edges": lambda ranking, chance: order_for_long_context(ranking.chunks),
    "shuffled": _shuffled,
    "gold in the middle": _gold_in_middle,
}


def rank_passages(retriever: Retriever, questions: Sequence[Question], k: int) -> list[Ranking]:
    """What the retriever finds for each question that has an accepted answer, with the rank that it gives the gold.

    The gold is the first passage that holds all of a question's gold characters.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more.")
    rankings = []
    for question in questions:
        if question.answerable and question.answers:
            chunks = tuple(hit.chunk for hit in retriever(question.text, k))
            places = [i for i, chunk in enumerate(chunks) if span_recall([chunk], question.gold) == 1.0]
            rankings.append(Ranking(question, chunks, places[0] if places else None))
    return rankings


def ordering_experiment(
    llm: Any,
    rankings: Sequence[Ranking],
    orders: Sequence[str] = tuple(ORDERS),
    n: int | None = None,
    seed: int = 0,
    template: Template | None = None,
    query_aware: bool = False,
    store: Store | None = None,
) -> ConditionResults:
    """The same passages in each of ``orders`` (names in ``ORDERS``): accuracy, likelihood of the gold, refusals.

    Only rankings that hold the gold among two or more passages count, since elsewhere an order moves nothing; ``n``
    of them are drawn with ``seed``, or all are taken. ``template`` is by default ``sources``, which asks for the
    fixed form of refusal that ``refused`` counts. ``llm`` and ``store`` as for ``position_curve``. ValueError for an
    unknown order or none, or fewer rankings than ``n``.
    """
    if not orders:
        raise ValueError(f"orders is empty; there are: {', '.join(ORDERS)}.")
    if unknown := [order for order in orders if order not in ORDERS]:
        raise ValueError(f"There is no order {unknown[0]!r}; there are: {', '.join(ORDERS)}.")
    usable = [ranking for ranking in rankings if ranking.gold is not None and len(ranking.chunks) > 1]
    asked = [
        _asked(
            ranking.question,
            [ORDERS[o](ranking, random.Random(f"{seed} {ranking.question.id}")) for o in orders],
            template,
            query_aware,
        )
        for ranking in _drawn(usable, n, seed)
    ]
    return run_conditions(
        ConditionResults, llm, _name("ordering", query_aware), tuple(orders), asked, MAX_TOKENS, store
    )


def chunk_count_experiment(
    llm: Any,
    rankings: Sequence[Ranking],
    counts: Sequence[int] = (1, 2, 5, 10, 20, 40),
    n: int | None = None,
    seed: int = 0,
    template: Template | None = None,
    query_aware: bool = False,
    store: Store | None = None,
) -> ConditionResults:
    """The first k passages in rank order, for each k of ``counts``, whether the gold is among them or not.

    Rankings need as many passages as the largest count. The rest as for ``ordering_experiment``.
    """
    counts = tuple(sorted(set(counts)))
    if not counts or counts[0] < 1:
        raise ValueError(f"counts are {list(counts)}; give numbers of passages, each 1 or more.")
    if short := [ranking for ranking in rankings if len(ranking.chunks) < counts[-1]]:
        raise ValueError(
            f"{short[0].question.id} has {len(short[0].chunks)} passages and {counts[-1]} are asked for: rank more, "
            "or leave that question out."
        )
    asked = [
        _asked(ranking.question, [list(ranking.chunks[:k]) for k in counts], template, query_aware)
        for ranking in _drawn(rankings, n, seed)
    ]
    return run_conditions(
        ConditionResults, llm, _name("number of passages", query_aware), counts, asked, MAX_TOKENS, store
    )


def _drawn(rankings: Sequence[Ranking], n: int | None, seed: int) -> list[Ranking]:
    n = len(rankings) if n is None else n
    if not 1 <= n <= len(rankings):
        raise ValueError(f"n is {n}; {len(rankings)} of the questions can be used.")
    return random.Random(seed).sample(list(rankings), n)


def _asked(
    question: Question, arrangements: Sequence[Sequence[Chunk]], template: Template | None, query_aware: bool
) -> PromptSet:
    prompts = tuple(
        build_prompt(question.text, assign_sources(chunks), template=template, query_aware=query_aware)
        for chunks in arrangements
    )
    return PromptSet(question.id, prompts, question.answers[0], question.answers)


def _name(what: str, query_aware: bool) -> str:
    return what + (", query-aware" if query_aware else "")
