"""The order of a sweep's work: indexes first, then each different prompt once, until a configuration is whole."""

from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass
from typing import Any

from rag_lab import batches, sweep_cache, sweep_plan, sweep_stages
from rag_lab.answering import Prepared, conclude, failed
from rag_lab.claude import ClaudeLLM
from rag_lab.datasets import Question
from rag_lab.language_models import is_paid
from rag_lab.llm import Completion, Prompt, Usage
from rag_lab.messages import CallFailed
from rag_lab.store import content_key
from rag_lab.sweep_config import Sweep
from rag_lab.sweep_keys import Configuration
from rag_lab.sweep_stages import Group, Result

PROMPTS_A_JOB = 4  # what a worker that is killed loses
IN_FLIGHT = 256

Done = dict[str, Completion | CallFailed]


@dataclass(frozen=True)
class _Job:
    """Work for a worker: a group to prepare, or prompts by key that a model is to complete."""

    group: Group | None
    model: str = ""
    temperature: float = 0.0
    max_tokens: int = 0
    prompts: dict[str, Prompt] | None = None


@dataclass(frozen=True)
class _Open:
    """A configuration, what was prepared for each question, and the key of each prompt ("" for none)."""

    settings: Configuration
    prepared: list[Prepared | Result]
    keys: list[str]


def answered(
    sweep: Sweep, numbers: Sequence[int], executor: Executor | None, advance: Callable[[int], Any]
) -> Iterator[tuple[int, list[Result]]]:
    """The configurations of these numbers with a result for each question, each as soon as it is finished.

    ``advance`` is told how many more answers are there. What a worker raises is raised, and the rest is cancelled.
    """
    waiting = deque(_Job(group) for group in sweep_plan.groups(sweep, numbers))
    running: dict[Future[Any], _Job] = {}
    opened: dict[int, _Open] = {}
    missing: Counter[int] = Counter()  # by configuration, the answers that wait for a prompt
    users: dict[str, list[int]] = {}  # by prompt that is asked, the configurations that wait for it
    done: Done = {}
    try:
        while waiting or running:
            while waiting and len(running) < (IN_FLIGHT if executor else 1):
                job = waiting.popleft()
                running[_submit(job, executor)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                touched: list[int] = []
                if job.prompts is None:
                    for number, prepared in future.result().items():
                        opened[number] = one = _open(sweep.configurations[number - 1], prepared)
                        waiting.extendleft(_jobs(one, users, done))
                        for key in one.keys:
                            if key and key not in done:
                                users.setdefault(key, []).append(number)
                                missing[number] += 1
                        advance(len(one.keys) - missing[number])
                        touched.append(number)
                else:
                    completions = dict(zip(job.prompts, future.result(), strict=True))
                    sweep_cache.completions().put_many({key: asdict(c) for key, c in completions.items()})
                    done |= completions
                    touched = [number for key in completions for number in users.pop(key)]
                    missing.subtract(touched)
                    advance(len(touched))
                for number in dict.fromkeys(touched):
                    if not missing[number]:
                        one = opened.pop(number)
                        parts = zip(one.prepared, one.keys, sweep.questions, strict=True)
                        yield (
                            number,
                            [_result(prepared, done.get(key), question) for prepared, key, question in parts],
                        )
    finally:
        for future in running:
            future.cancel()


def _submit(job: _Job, executor: Executor | None) -> Future[Any]:
    """Work that is paid for stays in this process, whose spending cap it is under."""
    if job.prompts is not None:
        function: Callable[..., Any] = sweep_stages.complete_prompts
        arguments: tuple[Any, ...] = (job.model, job.temperature, job.max_tokens, list(job.prompts.values()))
        paid = False
    else:
        assert job.group is not None
        function, arguments = sweep_stages.prepare_group, (job.group,)
        paid = any(map(sweep_plan.pays_for_context, job.group.configurations.values()))
    if executor is not None and not paid:
        return executor.submit(function, *arguments)
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _open(settings: Configuration, prepared: list[Prepared | Result]) -> _Open:
    model = settings["llm.model"]
    if model == "extractive":
        return _Open(settings, prepared, [""] * len(prepared))
    identity = ClaudeLLM(model).name if is_paid(model) else sweep_cache.model_identity(model)
    fixed = (sweep_cache.code("llm"), identity, settings["llm.temperature"], settings["llm.max_tokens"])
    prompts = [item.prompt if isinstance(item, Prepared) else None for item in prepared]
    return _Open(settings, prepared, [content_key(*fixed, asdict(prompt)) if prompt else "" for prompt in prompts])


def _jobs(one: _Open, users: Container[str], done: Done) -> list[_Job]:
    """Jobs for the prompts that nobody asked yet. Known completions, and at once those of a paid model, are done."""
    new: dict[str, Prompt] = {}
    for key, item in zip(one.keys, one.prepared, strict=True):
        if not key or key in users or key in done:
            continue
        record = sweep_cache.completions().get(key)
        if record is not None:
            done[key] = Completion(record["text"], Usage(**record["usage"]), record["stop_reason"])
        elif isinstance(item, Prepared) and item.prompt:
            new[key] = item.prompt
    model, temperature, most = (one.settings[f"llm.{name}"] for name in ("model", "temperature", "max_tokens"))
    if is_paid(model):
        if new:
            groups = [[prompt] for prompt in new.values()]
            outcomes = batches.complete_groups(ClaudeLLM(model), groups, most, temperature)
            done.update({key: outcome for key, (outcome,) in zip(new, outcomes, strict=True)})
        return []
    keys = list(new)
    parts = [keys[i : i + PROMPTS_A_JOB] for i in range(0, len(keys), PROMPTS_A_JOB)]
    return [_Job(None, model, temperature, most, {key: new[key] for key in part}) for part in parts]


def _result(prepared: Prepared | Result, completion: Completion | CallFailed | None, question: Question) -> Result:
    if isinstance(prepared, Result):
        return prepared
    if isinstance(completion, CallFailed):
        return sweep_stages.judge(failed(prepared, str(completion)), question)
    return sweep_stages.judge(conclude(prepared, completion), question)
