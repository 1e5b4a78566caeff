"""The same questions under several conditions, put to a local model or to Claude, and their answers judged."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Prompt
from rag_lab.positions.curves import ConditionResults
from rag_lab.prompting.build import REFUSAL
from rag_lab.storage import Store, content_key
from rag_lab.text.answer_matching import best_subspan_em, first_line

STOP = ("\n",)  # only the first line is judged
OutcomesType = TypeVar("OutcomesType", bound=ConditionResults)


@dataclass(frozen=True)
class PromptSet:
    """One question under every condition: a prompt each, the gold answer and all that is accepted."""

    id: str
    prompts: tuple[Prompt, ...]
    gold: str
    accepted: tuple[str, ...]


def run_conditions(
    kind: type[OutcomesType],
    llm: Any,
    task: str,
    conditions: tuple[Any, ...],
    asked: Sequence[PromptSet],
    max_tokens: int,
    store: Store | None = None,
) -> OutcomesType:
    """Ask every question under every condition, and judge the first lines of the answers.

    A LocalLLM gives likelihoods too, and with ``store`` its answers are kept as they come and not asked for again.
    A ClaudeLLM's calls are estimated first, capped, recorded, four at a time; one that fails is an error. TypeError
    for the name of a model and other things that are none.
    """
    paid = isinstance(llm, ClaudeLLM)
    if isinstance(llm, type) or not (paid or hasattr(llm, "generate_and_score")):
        name = repr(llm) if isinstance(llm, str) else "a name"
        raise TypeError(f"{llm!r} is no model: pass LocalLLM.load({name}) or ClaudeLLM({name}).")
    replies = iter(_ask_claude(llm, asked, max_tokens) if paid else _ask_local(llm, asked, max_tokens, store))
    shape = (len(asked), len(conditions))
    accuracy, refused, likelihood = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    answers: list[tuple[str, ...]] = []
    errors: dict[tuple[str, Any], str] = {}
    for i, question in enumerate(asked):
        row: list[str] = []
        for j, condition in enumerate(conditions):
            reply = next(replies)
            if isinstance(reply, CallFailed):
                errors[question.id, condition] = str(reply)
                row.append("")
                continue
            text, nats = reply
            row.append(first_line(text))
            accuracy[i, j] = best_subspan_em(text, question.accepted)
            refused[i, j] = float(text.strip().startswith(REFUSAL))
            likelihood[i, j] = np.nan if nats is None else nats
        answers.append(tuple(row))
    return kind(
        llm.name,
        task,
        conditions,
        tuple(question.id for question in asked),
        tuple(answers),
        accuracy,
        refused,
        None if paid else likelihood,
        errors,
    )


Reply = tuple[str, float | None] | CallFailed


def _ask_local(llm: Any, asked: Sequence[PromptSet], max_tokens: int, store: Store | None) -> list[Reply]:
    """Every prompt of every question in turn; what ``store`` has is not asked again."""
    prompts = [(prompt, question.gold) for question in asked for prompt in question.prompts]
    keys = [content_key(llm.identity, llm.dtype, asdict(p), gold, max_tokens, STOP) for p, gold in prompts]
    known = {key: record for key in keys if store is not None and (record := store.get(key))}
    missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
    todo = list(missing)
    asking = [missing[key][0] for key in todo], [missing[key][1] for key in todo]
    for number, completion, nats in llm.generate_and_score(*asking, max_tokens, STOP):
        known[todo[number]] = {"text": completion.text, "log_likelihood": nats}
        if store is not None:
            store.put(todo[number], known[todo[number]])
    return [(known[key]["text"], known[key]["log_likelihood"]) for key in keys]


def _ask_claude(llm: ClaudeLLM, asked: Sequence[PromptSet], max_tokens: int) -> list[Reply]:
    """One question's prompts one after the other, so that a later one finds in the cache what an earlier wrote."""
    outcomes = llm.complete_groups([question.prompts for question in asked], max_tokens)
    return [
        outcome if isinstance(outcome, CallFailed) else (outcome.text, None)
        for group in outcomes
        for outcome in group
    ]
