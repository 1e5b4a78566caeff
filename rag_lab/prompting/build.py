"""Build prompts from passages: sources with ids, a layout, history as turns, and an exact token budget."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rag_lab.llm.prompt import Block, Prompt, Turn
from rag_lab.prompting.injection import Finding
from rag_lab.prompting.templates import Source, Template, assign_sources, fill, load_template, render_sources
from rag_lab.prompting.token_budget import Dropped, select
from rag_lab.types import Chunk, Document

# data/prompts/strong.txt requests these forms; they mark a refusal and a partial answer.
REFUSAL = "The sources do not answer this."
MISSING = "Not in the sources:"

# What may stand before a form and right after it: marks of Markdown, quotation marks, a number in a list.
_BEFORE_FORM = r"(?:[\s>*_#`\"'“”«»•(\[-]|\d+[.)]\s)*"
_AFTER_FORM = r"\s*(?:[.:;!*_`\"'“”«»)\]\[(。：—–-]|$)"

Message = tuple[str, str]  # role ("user" or "assistant") and text
Item = TypeVar("Item")


def begins_with(text: str, form: str) -> bool:
    """Whether ``text`` begins with ``REFUSAL`` or ``MISSING``, in any case and with any marks around it.

    Without its full stop or colon too, and continued by another mark ("…answer this: they only…"), but not by words.
    """
    words = r"\s+".join(map(re.escape, form.rstrip(".:").split()))
    return re.match(_BEFORE_FORM + words + _AFTER_FORM, text, re.IGNORECASE) is not None


def build_prompt(
    question: str,
    sources: Sequence[Source],
    history: Sequence[Message] = (),
    template: Template | None = None,
    query_aware: bool = False,
) -> Prompt:
    """System instructions, ``history`` as turns, then one user turn: sources first, question last.

    ``template`` defaults to the ``sources`` layout (see ``load_template``). ``query_aware`` also puts the question
    before the sources (Liu et al. 2023, section 4.2). History is oldest first; messages before the first user message
    are dropped, because models expect the user to begin. Raises ValueError if the question is blank or a role is
    neither user nor assistant.
    """
    if not question.strip():
        raise ValueError("The question is blank; ask something.")
    template = template or load_template()
    before = fill(template.question_before, {"question": question}) if query_aware else ""
    message = (
        Block(template.instruction + before + render_sources(sources, template)),
        Block(fill(template.question, {"question": question})),
    )
    turns = [Turn(role, (Block(text),)) for role, text in _from_user(history)]  # type: ignore[arg-type]
    return Prompt((*turns, Turn("user", message)), (Block(template.system),) if template.system else ())


def _from_user(history: Sequence[Message]) -> tuple[Message, ...]:
    if wrong := [role for role, _ in history if role not in ("user", "assistant")]:
        raise ValueError(f"A message of the history has the role {wrong[0]!r}; roles are user and assistant.")
    first = next((i for i, (role, _) in enumerate(history) if role == "user"), len(history))
    return tuple(history[first:])


def order_for_long_context(ranked: Sequence[Item]) -> list[Item]:
    """Put the best at the edges and the worst in the middle: [1, 2, 3, 4, 5] becomes [1, 3, 5, 4, 2]."""
    return [*ranked[::2], *reversed(ranked[1::2])]


@dataclass(frozen=True)
class FittedPrompt:
    """A prompt within the budget, its ``tokens`` and sources, the dropped passages and the kept history."""

    prompt: Prompt
    tokens: int
    sources: tuple[Source, ...]
    dropped: tuple[Dropped, ...]
    history: tuple[Message, ...]


def fit_prompt(
    question: str,
    chunks: Sequence[Chunk],
    budget_tokens: int,
    count_prompt_tokens: Callable[[Prompt], int],
    history: Sequence[Message] = (),
    template: Template | None = None,
    documents: Iterable[Document] = (),
    order: Callable[[Sequence[Chunk]], Sequence[Chunk]] = list,
    findings: Sequence[Finding] = (),
    query_aware: bool = False,
) -> FittedPrompt:
    """The prompt with as many of the ranked ``chunks`` as fit; it never exceeds ``budget_tokens``.

    The budget is for the whole prompt: the model's window minus the longest answer. ``count_prompt_tokens`` is the
    model's own, and counts each candidate prompt as it would be sent, with passages in the ``order`` of, for example,
    ``order_for_long_context``. History gets at most half of what system prompt, layout and question leave; its oldest
    messages are dropped first. Raises ValueError if these three alone exceed the budget.
    """
    template = template or load_template()

    def prompt(passages: Sequence[Chunk], turns: Sequence[Message]) -> Prompt:
        return build_prompt(question, assign_sources(order(passages), findings), turns, template, query_aware)

    bare = count_prompt_tokens(prompt((), ()))
    if bare > budget_tokens:
        raise ValueError(
            f"The prompt has {bare} tokens without any source, the budget is {budget_tokens}; shorten the question "
            "or the system prompt, or raise the budget."
        )
    turns = _from_user(history)
    while turns and count_prompt_tokens(prompt((), turns)) > bare + (budget_tokens - bare) // 2:
        turns = _from_user(turns[1:])
    selection = select(chunks, budget_tokens, lambda kept: prompt(kept, turns), count_prompt_tokens, documents)
    sources = tuple(assign_sources(order(selection.chunks), findings))
    finished = build_prompt(question, sources, turns, template, query_aware)
    return FittedPrompt(finished, selection.tokens_after, sources, selection.dropped, turns)
