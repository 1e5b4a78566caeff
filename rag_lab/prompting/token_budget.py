"""Token budgets: how many tokens a window leaves for sources, and which passages fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rag_lab.chunking import merge_adjacent
from rag_lab.prompting.templates import assign_sources, load_template, render_sources
from rag_lab.types import Chunk, Document

Rendered = TypeVar("Rendered")


@dataclass(frozen=True)
class Dropped:
    """A passage that a step (``filter``, ``extract``, ``budget`` …) dropped, and why."""

    chunk: Chunk
    step: str
    reason: str


@dataclass(frozen=True)
class Selection:
    """The passages that a step kept, in order, those it dropped, and the tokens before and after.

    ``unverified_quotes``: texts that a model returned as quotes and that its passage does not contain.
    """

    chunks: tuple[Chunk, ...]
    dropped: tuple[Dropped, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    unverified_quotes: tuple[str, ...] = ()


def context_budget(window: int, system: int, history: int, question: int, max_output: int, template: int = 0) -> int:
    """Tokens left for sources: window - system - history - question - max_output - template.

    ``template``: the tokens that layout and chat format add. This is an estimate, because tokens of parts do not add
    up exactly; ``fit_prompt`` counts the whole prompt. Raises ValueError if a part is negative or nothing is left.
    """
    parts = {"system": system, "history": history, "question": question, "max_output": max_output}
    parts["template"] = template
    if negative := [name for name, tokens in parts.items() if tokens < 0]:
        raise ValueError(f"{negative[0]} is {parts[negative[0]]}; tokens are 0 or more.")
    left = window - sum(parts.values())
    if left < 1:
        used = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
        raise ValueError(f"A window of {window} tokens leaves none for sources ({used}); shorten one of these.")
    return left


def fit_to_budget(
    chunks: Sequence[Chunk],
    budget_tokens: int,
    count_tokens: Callable[[str], int],
    documents: Iterable[Document] = (),
) -> list[Chunk]:
    """The passages that fit as sources of the default layout, best first (see ``select``).

    ``count_tokens`` counts the rendered sources with the tokenizer of the model that will read them.
    """
    template = load_template()
    selection = select(
        chunks, budget_tokens, lambda kept: render_sources(assign_sources(kept), template), count_tokens, documents
    )
    return list(selection.chunks)


def select(
    chunks: Sequence[Chunk],
    budget_tokens: int,
    render: Callable[[Sequence[Chunk]], Rendered],
    count_tokens: Callable[[Rendered], int],
    documents: Iterable[Document] = (),
) -> Selection:
    """Go down the ranking and keep each chunk with which the rendered whole has at most ``budget_tokens``.

    After a chunk that does not fit, shorter ones may still fit. Each step renders and counts the passages that
    ``merge_adjacent`` makes of the kept chunks (with ``documents``), each at the rank of its best chunk, so overlaps
    count once and counts are exact. Counts once if everything fits, else once per chunk. Raises ValueError if the
    rendered text without any chunk exceeds the budget.
    """
    documents = tuple(documents)

    def count(taken: Sequence[Chunk]) -> tuple[list[Chunk], int]:
        passages = sorted(merge_adjacent(taken, documents), key=lambda passage: _rank(passage, taken))
        return passages, count_tokens(render(passages))

    passages, before = count(chunks)
    if before <= budget_tokens:
        return Selection(tuple(passages), (), before, before)
    passages, after = count(())
    if after > budget_tokens:
        raise ValueError(f"The budget is {budget_tokens} tokens, but {after} are used without any source; raise it.")
    taken: list[Chunk] = []
    dropped = []
    for chunk in chunks:
        candidate, tokens = count([*taken, chunk])
        if tokens <= budget_tokens:
            taken.append(chunk)
            passages, after = candidate, tokens
        else:
            dropped.append(Dropped(chunk, "budget", f"with it {tokens} tokens, of {budget_tokens}"))
    return Selection(tuple(passages), tuple(dropped), before, after)


def _rank(passage: Chunk, ranked: Sequence[Chunk]) -> int:
    """The rank of the best chunk inside ``passage``."""
    inside = (c.doc_id == passage.doc_id and passage.start <= c.start and c.end <= passage.end for c in ranked)
    return next(rank for rank, is_inside in enumerate(inside) if is_inside)
