"""The same questions under several conditions: prompts answered by any language model, and the answers scored."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from rag_lab.llm.language_model import CallFailed, LanguageModel, ScoringModel, gives_likelihoods
from rag_lab.llm.prompt import Prompt
from rag_lab.metrics import Interval, bootstrap_ci, paired_difference
from rag_lab.prompting.build import REFUSAL, begins_with
from rag_lab.results import interval_fields
from rag_lab.storage import Store, content_key
from rag_lab.text.answer_matching import best_subspan_em, first_line

STOP = ("\n",)  # only the first line is scored

Measure = Literal["accuracy", "log_likelihood", "refused"]
Reply = tuple[str, float] | CallFailed  # an answer and the log-likelihood of the gold answer, NaN if unknown


@dataclass(frozen=True)
class PromptSet:
    """One question under every condition: one prompt each, the gold answer, and every accepted answer."""

    id: str
    prompts: tuple[Prompt, ...]
    gold: str
    accepted: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """What a model answered to ``n`` questions under each condition.

    ``accuracy`` (0 or 1), ``refused`` (0 or 1) and ``log_likelihood`` of the gold answer (nats, summed over its
    tokens; None if the model gives none) are arrays (n, conditions), NaN where a call failed. ``errors`` holds the
    reasons by (question, condition). A question with an error anywhere is left out everywhere, so that all conditions
    have the same questions.
    """

    model: str
    task: str
    conditions: tuple[Any, ...]
    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    accuracy: np.ndarray
    refused: np.ndarray
    log_likelihood: np.ndarray | None
    errors: dict[tuple[str, Any], str]

    @property
    def complete(self) -> np.ndarray:
        """Which questions were answered under every condition, (n,) of bool."""
        return ~np.isnan(self.accuracy).any(axis=1)

    def values(self, measure: Measure = "accuracy") -> np.ndarray:
        """The measure for the complete questions, (complete, conditions).

        Raises ValueError if the measure is unknown, if the model gives no likelihood, or if no question is complete.
        """
        if measure not in get_args(Measure):
            raise ValueError(f"There is no measure {measure!r}; there are: {', '.join(get_args(Measure))}.")
        array = getattr(self, measure)
        if array is None:
            raise ValueError(f"{self.model} gives no likelihood; measure its accuracy.")
        if not self.complete.any():
            if not self.errors:
                raise ValueError(f"{self.task}: there are no questions.")
            reason = next(iter(self.errors.values()))
            raise ValueError(f"No question was answered under every condition; the first error was: {reason}")
        return array[self.complete]

    def intervals(self, measure: Measure = "accuracy") -> list[Interval]:
        """Mean and 95% bootstrap interval under each condition."""
        return [bootstrap_ci(column) for column in self.values(measure).T]

    def difference(self, first: Any, second: Any, measure: Measure = "accuracy") -> Interval:
        """Mean of condition ``first`` − ``second``, paired by question, with its 95% interval.

        Raises ValueError if one of them is not a condition.
        """
        if unknown := [one for one in (first, second) if one not in self.conditions]:
            known = ", ".join(map(str, self.conditions))
            raise ValueError(f"There is no condition {unknown[0]!r}; there are: {known}.")
        a, b = (self.values(measure)[:, self.conditions.index(one)] for one in (first, second))
        return paired_difference(a, b)

    def rows(self, label: str, measures: Sequence[Measure]) -> list[dict[str, Any]]:
        """For a results file: one row per measure and condition, with its interval and the number of errors."""
        return [
            {"task": self.task, "measure": measure, label: condition, "errors": len(self.errors)}
            | interval_fields(interval)
            for measure in measures
            for condition, interval in zip(self.conditions, self.intervals(measure), strict=True)
        ]


def run_conditions(
    llm: LanguageModel,
    task: str,
    conditions: tuple[Any, ...],
    prompt_sets: Sequence[PromptSet],
    max_tokens: int,
    store: Store | None = None,
) -> ConditionResults:
    """Answer every question under every condition and score the first lines of the answers.

    A local model gives likelihoods too; its answers are kept in ``store`` as they come and not generated again. For a
    paid model the calls are estimated, capped and recorded; a call that fails is an error of its condition.
    """
    if isinstance(llm, type) or not hasattr(llm, "complete_groups"):
        raise TypeError(f"{llm!r} is not a language model: load one with LocalLLM.load(name) or ClaudeLLM(name).")
    if gives_likelihoods(llm):
        replies = _generate_and_score(llm, prompt_sets, max_tokens, store)
    else:
        groups = llm.complete_groups([question.prompts for question in prompt_sets], max_tokens)
        replies = [reply if isinstance(reply, CallFailed) else (reply.text, np.nan) for g in groups for reply in g]
    cells = [(question, condition) for question in prompt_sets for condition in conditions]
    answers: list[str] = []
    scores: list[tuple[float, float, float]] = []
    errors: dict[tuple[str, Any], str] = {}
    for (question, condition), reply in zip(cells, replies, strict=True):
        if isinstance(reply, CallFailed):
            errors[question.id, condition] = str(reply)
            answers.append("")
            scores.append((np.nan, np.nan, np.nan))
        else:
            text, nats = reply
            answers.append(first_line(text))
            scores.append((best_subspan_em(text, question.accepted), begins_with(text, REFUSAL), nats))
    columns = np.array(scores, dtype=np.float64).reshape(-1, 3).T
    accuracy, refused, likelihood = columns.reshape(3, len(prompt_sets), len(conditions))
    width = len(conditions)
    return ConditionResults(
        llm.name,
        task,
        conditions,
        tuple(question.id for question in prompt_sets),
        tuple(tuple(answers[i : i + width]) for i in range(0, len(answers), width)),
        accuracy,
        refused,
        likelihood if gives_likelihoods(llm) else None,
        errors,
    )


def _generate_and_score(
    llm: ScoringModel, prompt_sets: Sequence[PromptSet], max_tokens: int, store: Store | None
) -> list[Reply]:
    """Answers and likelihoods, question by question; what ``store`` has is not generated again."""
    known: dict[str, dict[str, Any]] = {}
    missing: dict[str, tuple[Prompt, str]] = {}
    keys = []
    for prompt, gold in ((prompt, question.gold) for question in prompt_sets for prompt in question.prompts):
        key = content_key(llm.identity, llm.dtype, asdict(prompt), gold, max_tokens, STOP)
        keys.append(key)
        if store is not None and (record := store.get(key)):
            known[key] = record
        else:
            missing[key] = prompt, gold
    order = list(missing)
    prompts, golds = [prompt for prompt, _ in missing.values()], [gold for _, gold in missing.values()]
    for number, completion, nats in llm.generate_and_score(prompts, golds, max_tokens, STOP):
        known[order[number]] = {"text": completion.text, "log_likelihood": nats}
        if store is not None:
            store.put(order[number], known[order[number]])
    return [(known[key]["text"], known[key]["log_likelihood"]) for key in keys]
