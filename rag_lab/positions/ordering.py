"""The order and the number of retrieved passages, and what each does to the answer."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_lab.llm.language_model import LanguageModel
from rag_lab.metrics import span_recall
from rag_lab.positions.conditions import ConditionResults, PromptSet, run_conditions
from rag_lab.prompting.build import build_prompt, order_for_long_context
from rag_lab.prompting.templates import assign_sources
from rag_lab.storage import Store
from rag_lab.types import Chunk, Question, Retriever

MAX_TOKENS = 64


@dataclass(frozen=True)
class Ranking:
    """A question with its passages, best first, and the place of the gold among them (None if it was not found)."""

    question: Question
    chunks: tuple[Chunk, ...]
    gold: int | None


def _gold_in_middle(ranking: Ranking, rng: random.Random) -> list[Chunk]:
    """Only the gold is moved, to the place with as many passages before it as after it (or one more before)."""
    assert ranking.gold is not None
    chunks = list(ranking.chunks)
    chunks.insert(len(chunks) // 2, chunks.pop(ranking.gold))
    return chunks


ORDERS: dict[str, Callable[[Ranking, random.Random], list[Chunk]]] = {
    "ranked": lambda ranking, rng: list(ranking.chunks),
    "reversed": lambda ranking, rng: list(reversed(ranking.chunks)),
    "edges": lambda ranking, rng: order_for_long_context(ranking.chunks),
    "shuffled": lambda ranking, rng: rng.sample(ranking.chunks, len(ranking.chunks)),
    "gold in the middle": _gold_in_middle,
}


def rank_passages(retriever: Retriever, questions: Sequence[Question], k: int) -> list[Ranking]:
    """The retriever's passages for each question that has an accepted answer, with the rank of the gold.

    The gold is the first passage that covers all of a question's gold characters.
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
    llm: LanguageModel,
    rankings: Sequence[Ranking],
    orders: Sequence[str] = tuple(ORDERS),
    n: int | None = None,
    seed: int = 0,
    query_aware: bool = False,
    store: Store | None = None,
) -> ConditionResults:
    """The same passages in each of ``orders`` (names in ``ORDERS``): accuracy, likelihood of the gold, refusals.

    Only rankings with the gold among two or more passages are used, because order changes nothing in the others;
    ``n`` of them are drawn with ``seed``, or all are used. ``query_aware`` puts the question before the passages too.
    ``store`` as in ``position_curve``. Raises ValueError if ``orders`` is empty or has an unknown one, or if there
    are fewer than ``n`` rankings.
    """
    if not orders:
        raise ValueError(f"orders is empty; there are: {', '.join(ORDERS)}.")
    if unknown := [order for order in orders if order not in ORDERS]:
        raise ValueError(f"There is no order {unknown[0]!r}; there are: {', '.join(ORDERS)}.")
    usable = [ranking for ranking in rankings if ranking.gold is not None and len(ranking.chunks) > 1]

    def arrange(ranking: Ranking, order: str) -> Sequence[Chunk]:
        return ORDERS[order](ranking, random.Random(f"{seed} {ranking.question.id}"))

    return _run(llm, "ordering", tuple(orders), usable, n, seed, arrange, query_aware, store)


def chunk_count_experiment(
    llm: LanguageModel,
    rankings: Sequence[Ranking],
    counts: Sequence[int] = (1, 2, 5, 10, 20, 40),
    n: int | None = None,
    seed: int = 0,
    query_aware: bool = False,
    store: Store | None = None,
) -> ConditionResults:
    """The first k passages in rank order, for each k of ``counts``, whether the gold is among them or not.

    Rankings need as many passages as the largest count. The other parameters are those of ``ordering_experiment``.
    """
    counts = tuple(sorted(set(counts)))
    if not counts or counts[0] < 1:
        raise ValueError(f"counts are {list(counts)}; give numbers of passages, each 1 or more.")
    if short := [ranking for ranking in rankings if len(ranking.chunks) < counts[-1]]:
        raise ValueError(
            f"{short[0].question.id} has {len(short[0].chunks)} passages, but {counts[-1]} are needed: rank more "
            "passages, or leave that question out."
        )

    def first(ranking: Ranking, k: int) -> Sequence[Chunk]:
        return ranking.chunks[:k]

    return _run(llm, "number of passages", counts, rankings, n, seed, first, query_aware, store)


def _run(
    llm: LanguageModel,
    name: str,
    conditions: tuple[Any, ...],
    rankings: Sequence[Ranking],
    n: int | None,
    seed: int,
    arrange: Callable[[Ranking, Any], Sequence[Chunk]],
    query_aware: bool,
    store: Store | None,
) -> ConditionResults:
    n = len(rankings) if n is None else n
    if not 1 <= n <= len(rankings):
        raise ValueError(f"n is {n}; {len(rankings)} of the questions can be used.")
    prompt_sets = []
    for ranking in random.Random(seed).sample(list(rankings), n):
        question = ranking.question
        sources = [assign_sources(arrange(ranking, condition)) for condition in conditions]
        prompts = tuple(build_prompt(question.text, found, query_aware=query_aware) for found in sources)
        prompt_sets.append(PromptSet(question.id, prompts, question.answers[0], question.answers))
    task = f"{name}, query-aware" if query_aware else name
    return run_conditions(llm, task, conditions, prompt_sets, MAX_TOKENS, store)
