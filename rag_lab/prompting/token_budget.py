"""What fits: the arithmetic of a window, and the choice of passages by the tokens of what is rendered from them.

What a step between retrieval and prompt kept of the passages, what it dropped, and why.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rag_lab.chunking import merge_adjacent
from rag_lab.prompting.templates import assign_sources, load_template, render_sources
from rag_lab.types import Chunk, Document

Rendered = TypeVar("Rendered")


@dataclass(frozen=True)
class Dropped:
    """A passage that was left out: by which step (``filter``, ``extract``, ``budget`` …) and why."""

    chunk: Chunk
    step: str
    reason: str


@dataclass(frozen=True)
class Selection:
    """What a step kept, in the order it came, what it dropped, and the tokens before and after.

    ``unverified_quotes``: what a model returned that its passage does not contain.
    """

    chunks: tuple[Chunk, ...]
    dropped: tuple[Dropped, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    unverified_quotes: tuple[str, ...] = ()

    @property
    def tokens_saved(self) -> int:
        """Tokens that the step took away."""
        return self.tokens_before - self.tokens_after


def context_budget(window: int, system: int, history: int, question: int, max_output: int, template: int = 0) -> int:
    """Tokens left for sources: window - system - history - question - maximum output - template.

    All are tokens; ``template`` is what the layout and the chat format add. A plan, exact only as far as tokens add
    up: what is sent is counted whole (``prompting.fit_prompt``). ValueError for a negative part, or none left.
    """
    parts = {
        "system": system,
        "history": history,
        "question": question,
        "max_output": max_output,
        "template": template,
    }
    if negative := [name for name, tokens in parts.items() if tokens < 0]:
        raise ValueError(f"{negative[0]} is {parts[negative[0]]}; tokens are 0 or more.")
    left = window - sum(parts.values())
    if left < 1:
        used = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
        raise ValueError(f"A window of {window} tokens leaves none for sources ({used}): shorten one of these.")
    return left


def fit_to_budget(
    chunks: Sequence[Chunk],
    budget_tokens: int,
    count_tokens: Callable[[str], int],
    documents: Iterable[Document] = (),
) -> list[Chunk]:
    """The passages that fit when written as sources of the default layout, best first; see ``select``.

    ``count_tokens`` counts the whole text of the sources with the tokenizer of the model that will read them.
    """
    template = load_template()
    return list(
        select(
            chunks,
            budget_tokens,
            lambda kept: render_sources(assign_sources(kept), template),
            count_tokens,
            documents,
        ).chunks
    )


def select(
    chunks: Sequence[Chunk],
    budget_tokens: int,
    render: Callable[[Sequence[Chunk]], Rendered],
    count_tokens: Callable[[Rendered], int],
    documents: Iterable[Document] = (),
) -> Selection:
    """Go down the ranking and take every chunk with which the whole, rendered, has at most ``budget_tokens``.

    A chunk that does not fit stops nothing: shorter ones after it still may. What is rendered and counted at each
    step are the passages that ``merge_adjacent`` makes of the chunks taken (``documents`` as there), each in the
    place of its best chunk, so that an overlap is paid once and no cost is a sum of parts. Where all fit, one count
    is made, else one a chunk. ValueError where nothing, rendered, is over the budget.
    """
    documents = tuple(documents)

    def count(taken: Sequence[int]) -> tuple[list[Chunk], int]:
        passages = _merged(chunks, taken, documents)
        return passages, count_tokens(render(passages))

    everything = range(len(chunks))
    passages, before = count(everything)
    if before <= budget_tokens:
        return Selection(tuple(passages), (), before, before)
    passages, after = count(())
    if after > budget_tokens:
        raise ValueError(f"The budget is {budget_tokens} tokens, but without any source {after} are used: raise it.")
    taken: list[int] = []
    dropped = []
    for i in everything:
        candidate, tokens = count([*taken, i])
        if tokens <= budget_tokens:
            taken.append(i)
            passages, after = candidate, tokens
        else:
            dropped.append(Dropped(chunks[i], "budget", f"with it {tokens} tokens, of {budget_tokens}"))
    return Selection(tuple(passages), tuple(dropped), before, after)


def _merged(chunks: Sequence[Chunk], taken: Iterable[int], documents: Sequence[Document]) -> list[Chunk]:
    """The chosen chunks merged; a passage stands where the first of its chunks stands in the ranking."""
    chosen = [chunks[i] for i in taken]

    def place(passage: Chunk) -> int:
        return next(
            rank
            for rank, chunk in enumerate(chosen)
            if chunk.doc_id == passage.doc_id and passage.start <= chunk.start and chunk.end <= passage.end
        )

    return sorted(merge_adjacent(chosen, documents), key=place)
