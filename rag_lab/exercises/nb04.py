"""The checks of notebook 04's exercises. Each returns None if the attempt is right, else a hint."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_lab.exercises.hints import number_hint
from rag_lab.llm import pricing
from rag_lab.types import Chunk

# Exercise 1: tokens by rank, the budget, and the positions taken when the first that does not fit ends the prompt.
FILLS = [([40, 50, 30, 10], 100, [0, 1]), ([120, 10], 100, []), ([50, 50, 1], 100, [0, 1]), ([], 100, [])]

# Exercise 2. A heading is part of its first chunk's text, which does not repeat it as context: the other four do.
REDONE = {
    "naive": {"a": 1, "b": 1, "c": 1},
    "late": {"a": 30, "b": 30, "c": 30},
    "heading": {"a": 1, "b": 30, "c": 5},
}
_WHY_REDONE = {
    "naive": "a vector is made from its chunk alone",
    "late": "every vector is made from token vectors that have read the whole page",
    "heading": "which chunks hold the changed words, in their text or in their context (title, heading, opening)?",
}


def check_strict_fill(attempt: Callable[[list[int], int], Sequence[int]]) -> str | None:
    """``attempt(tokens, budget)`` stops at the first chunk that does not fit; one that fits exactly does fit."""
    for tokens, budget, right in FILLS:
        given = list(attempt(list(tokens), budget))
        if given != right:
            return f"for {tokens} and a budget of {budget} it returned {given}: stop at the first that does not fit"
    return None


def check_redone(attempt: Mapping[str, Mapping[str, Any]]) -> str | None:
    """``REDONE``: chunks to embed again for each arm and edit."""
    for arm, edits in REDONE.items():
        for edit, right in edits.items():
            given = attempt.get(arm, {}).get(edit, ...)
            if given is ...:
                return f"no number yet for {arm}, edit ({edit})"
            if given != right:
                return f"{arm}, edit ({edit}): {_WHY_REDONE[arm]}"
    return None


def check_cost(attempt: float) -> str | None:
    """US dollars for 30 calls: the first writes 12,000 tokens to the cache and the others read them."""
    calls = pricing.context_calls([12_000], chunk_tokens=400, instruction_tokens=50, context_tokens=100)
    right, uncached = (pricing.estimate("claude-haiku-5-5", calls, cache=cache).dollars for cache in ("5m", ""))
    slips = {uncached: "that is without the cache: 29 of the 30 calls read the document at the cache-read price"}
    hint = "add up over the calls: one cache write, the cache reads, 450 tokens of input and 100 of output each"
    return number_hint(attempt, right, slips, hint, rel=0.01)


def check_share_context(
    attempt: Callable[[Sequence[Chunk]], str], chunks: Sequence[Chunk], count_tokens: Callable[[str], int]
) -> str | None:
    """All chunks in order, a context only where it differs from the one before. Prints the tokens saved."""
    parts, last = [], ""
    for chunk in chunks:
        parts += [chunk.text] if chunk.context in ("", last) else [chunk.context, chunk.text]
        last = chunk.context
    given = attempt(chunks)
    if not isinstance(given, str):
        return f"return one text, not {type(given).__name__}"
    if given.strip() != "\n\n".join(parts):
        if missing := [chunk.id for chunk in chunks if chunk.text not in given]:
            return f"the text of {missing[0]} is not in it"
        return "blank lines between the parts, and a context only where it is not that of the chunk before"
    before = count_tokens("\n\n".join(chunk.contextual_text for chunk in chunks))
    print(f"{len(chunks)} chunks: {before} tokens with every context, {count_tokens(given)} with shared ones")
    return None
