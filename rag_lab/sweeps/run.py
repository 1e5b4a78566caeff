"""Run a sweep: every configuration on every question. Shared work is done once, and results are kept as they come.

Configurations are grouped by index. A worker prepares one group at a time: it searches, and builds prompts or quotes
sentences. Each different prompt is then completed once. Prompts are completed one at a time, because a batch changes
the rounding and so, now and then, a token.
"""

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rag_lab import settings
from rag_lab.answering.extractive import ExtractiveReader
from rag_lab.answering.pipeline import AnswerOptions, Prepared, conclude, failed, prepare
from rag_lab.answering.trace import Answer
from rag_lab.evaluation.diagnosis import Diagnosis, diagnose
from rag_lab.evaluation.scoring import outcome
from rag_lab.llm import spending
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.load import is_paid
from rag_lab.llm.pricing import usd
from rag_lab.llm.prompt import Completion, Prompt, Usage
from rag_lab.metrics import Outcome, answer_scores
from rag_lab.prompting.build import build_prompt, order_for_long_context
from rag_lab.prompting.templates import assign_sources
from rag_lab.results import interval_fields
from rag_lab.retrieval.contextual import context_prompt
from rag_lab.storage import append_jsonl, cached_json, content_key, jsonl_bytes, read_jsonl, write_atomic
from rag_lab.sweeps import index
from rag_lab.sweeps.config import DEFAULT, KEYS, MODELS, NOT_EXTRACTIVE, Sweep, SweepConfig, load_sweep
from rag_lab.types import Chunk, Hit, Question, Retriever

CONTEXT_TOKENS = 200  # the most that Claude may write as the context of a chunk

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Result:
    """What one answer was worth, where it failed, and what it took."""

    outcome: Outcome
    diagnosis: Diagnosis
    usage: Usage


Options = tuple[str, int, float]  # name of the model, max_tokens, temperature
Items = list[tuple[str, Prepared | Result]]  # one per question, with the key of its prompt, "" if it has none


def run_sweep(
    config: str | Path | Sweep, executor: Executor | None = None, results: str | Path | None = None
) -> list[dict[str, Any]]:
    """One row per configuration, in their order. ``config`` is a sweep file or a loaded ``Sweep``.

    ``executor`` runs independent work in parallel: ``ProcessPoolExecutor()``, or ``get_executor()`` of a Dask client;
    None means this process. The rows are the same with each, and do not depend on which other configurations there
    are. Paid models are called from this process only, under its spending cap.

    ``results`` (default: ``sweeps/NAME.jsonl`` in the cache folder) gets each row when it is finished, and at the end
    all rows in order. Run again, an interrupted sweep continues. Rows made with other data, prompts, models, settings
    or versions of the code are dropped, and rows with errors run again. A row has ``number`` (from 1), ``key``,
    ``name`` of the sweep, ``configuration``, ``total`` and ``mean`` (with its 95% interval) of ``answer_score``,
    ``counts`` of the outcomes, ``outcomes`` by question id, ``answerable`` (ids), ``diagnosis`` and ``details``
    (counts), and ``prompt_tokens``, ``output_tokens`` and ``dollars`` of its answers, shared ones included.

    Raises as ``load_sweep`` does. Before anything runs, raises ValueError if ``results`` is a file of something else
    or a paid model is used in mode *offline*, and RuntimeError if its key is missing or another process writes to
    ``results``. Raises OverBudget at the cap.
    """
    from filelock import FileLock, Timeout
    from tqdm.auto import tqdm

    sweep = config if isinstance(config, Sweep) else load_sweep(config)
    path = Path(results) if results is not None else index.folder() / f"{sweep.name}.jsonl"
    print(plan(sweep), file=sys.stderr)
    keys = {number: row_key(sweep, c) for number, c in enumerate(sweep.configurations, 1)}
    locks = index.folder() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(locks / content_key(str(path.resolve())), timeout=0):
            rows = _finished(path, keys, sweep.name)
            todo = [number for number in keys if number not in rows]
            with (
                tqdm(total=len(todo), unit=" runs", disable=not todo) as bar,
                contextlib.closing(_answered(sweep, todo, executor)) as answered,
            ):
                for number, found in answered:
                    rows[number] = {"number": number, "key": keys[number]} | _row(sweep, number, found)
                    append_jsonl(path, [rows[number]])
                    bar.update()
            write_atomic(path, jsonl_bytes(rows[number] for number in keys))
    except Timeout as error:
        raise RuntimeError(f"Another sweep is writing {path}: wait for it, or name another file.") from error
    return [rows[number] for number in keys]


def row_key(sweep: Sweep, config: SweepConfig) -> str:
    """A hash of everything that shapes the row: settings, data, prompt, history, models, versions of the code."""
    keys = [key for key in MODELS if key != "context.model" or config.context_method == "llm"]
    return content_key(
        config.settings(),
        [asdict(document) for document in sweep.documents],
        [asdict(question) for question in sweep.questions],
        asdict(sweep.templates[config.prompt_system_prompt_path]),
        sweep.history(config),
        index.model_identities(config, *keys),
        index.versions(),
    )


def _finished(path: Path, keys: Mapping[int, str], name: str) -> dict[int, dict[str, Any]]:
    """The rows of the file that still hold, by number; all others are removed from it."""
    if not path.exists():
        return {}
    start, last = b'{"number": ', path.read_bytes().rpartition(b"\n")[2]  # ``last``: a row that was cut short
    if not (last.startswith(start) or start.startswith(last)):
        raise ValueError(f"{path}: the last line is no row of a sweep: name another file for results.")
    numbers = {key: number for number, key in keys.items()}
    rows: dict[int, dict[str, Any]] = {}
    records = read_jsonl(path, strict=True)
    for line, row in enumerate(records, 1):
        try:
            key, errors = row["key"], row["counts"]["error"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {line} is no row of a sweep: name another file for results.") from error
        if key in numbers and not errors:
            rows[numbers[key]] = row | {"number": numbers[key], "name": name}
    if len(rows) < len(records):
        print(
            f"{path}: {len(records) - len(rows)} of {len(records)} rows are dropped: they have errors, or were made "
            "with other data, settings, models, or versions of rag_lab and its libraries.",
            file=sys.stderr,
        )
    write_atomic(path, jsonl_bytes(rows[number] for number in sorted(rows)))
    return rows


def _row(sweep: Sweep, number: int, results: Sequence[Result]) -> dict[str, Any]:
    scores = answer_scores([result.outcome for result in results])
    modes = [result.diagnosis.failure_mode for result in results]
    details = [f"{result.diagnosis.failure_mode}: {result.diagnosis.detail}" for result in results]
    usage = sum((result.usage for result in results), Usage())
    return {
        "name": sweep.name,
        "configuration": sweep.configurations[number - 1].settings(),
        "total": scores.total,
        "mean": interval_fields(scores.mean) if scores.mean else None,
        "counts": scores.counts,
        "outcomes": {question.id: r.outcome for question, r in zip(sweep.questions, results, strict=True)},
        "answerable": [question.id for question in sweep.questions if question.answerable],
        "diagnosis": dict(sorted(Counter(modes).items())),
        "details": dict(sorted(Counter(detail.removesuffix(": ") for detail in details).items())),
        "prompt_tokens": usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        "dollars": round(usage.dollars, 6),
    }


def _answered(
    sweep: Sweep, numbers: Sequence[int], executor: Executor | None
) -> Generator[tuple[int, list[Result]], None, None]:
    """The configurations of these numbers with a result for each question, one index after the other."""
    groups: dict[tuple[Any, ...], dict[int, SweepConfig]] = {}
    for number in numbers:
        config = sweep.configurations[number - 1]
        groups.setdefault(config.index, {})[number] = config
    paid = {key for key, group in groups.items() if any(c.pays_for_context for c in group.values())}
    done: dict[str, Completion | CallFailed] = {}
    for keys, workers in ((groups.keys() - paid, executor), (paid, None)):
        jobs = {key: (replace(sweep, configurations=tuple(groups[key].values())),) for key in groups if key in keys}
        with contextlib.closing(_each(prepare_group, jobs, workers)) as finished:
            for index_key, prepared in finished:
                group = groups[index_key]
                for options, prompts in _by_options(group.values(), prepared).items():
                    done |= _completed(*options, {key: prompts[key] for key in prompts if key not in done}, executor)
                for number, items in zip(group, prepared, strict=True):
                    answers = zip(items, sweep.questions, strict=True)
                    yield number, [_result(item, done.get(key), question) for (key, item), question in answers]


def _by_options(configs: Iterable[SweepConfig], prepared: list[Items]) -> dict[Options, dict[str, Prompt]]:
    """The prompts of all configurations by options of the model, and by key."""
    found: dict[Options, dict[str, Prompt]] = {}
    for config, items in zip(configs, prepared, strict=True):
        prompts = found.setdefault((config.llm_model, config.llm_max_tokens, config.llm_temperature), {})
        prompts |= {key: item.prompt for key, item in items if isinstance(item, Prepared) and item.prompt}
    return found


def _each(
    function: Callable[..., Value], jobs: Mapping[Key, tuple[Any, ...]], executor: Executor | None
) -> Generator[tuple[Key, Value], None, None]:
    """The value of ``function`` for every job's arguments, as they finish. If one fails, the rest is cancelled."""
    if executor is None:
        yield from ((key, function(*arguments)) for key, arguments in jobs.items())
        return
    futures = {executor.submit(function, *arguments): key for key, arguments in jobs.items()}
    try:
        for future in as_completed(list(futures)):
            yield futures.pop(future), future.result()
    finally:
        for future in futures:
            future.cancel()


def _completed(
    model: str, max_tokens: int, temperature: float, prompts: Mapping[str, Prompt], executor: Executor | None
) -> dict[str, Completion | CallFailed]:
    """What the model writes to each prompt, by key."""
    if is_paid(model):  # in this process, whose spending cap it is under; each response is recorded
        outcomes = index.load_llm(model).complete_many(list(prompts.values()), max_tokens, temperature=temperature)
        return dict(zip(prompts, outcomes, strict=True))
    from tqdm.auto import tqdm

    jobs = {key: (key, model, max_tokens, temperature, prompt) for key, prompt in prompts.items()}
    completed = _each(complete_prompt, jobs, executor)
    return dict(tqdm(completed, total=len(jobs), unit=" prompts", leave=False, disable=not jobs))


def complete_prompt(key: str, model: str, max_tokens: int, temperature: float, prompt: Prompt) -> Completion:
    """What a local model writes to a prompt, from disk if it is there. Runs in a worker."""

    def write() -> dict[str, Any]:
        with index.one_thread():
            return asdict(index.load_llm(model).complete(prompt, max_tokens=max_tokens, temperature=temperature))

    record = cached_json("sweeps/completions", key, write)
    return Completion(record["text"], Usage(**record["usage"]), record["stop_reason"])


def prepare_group(group: Sweep) -> list[Items]:
    """A prompt, or a result that needs no language model, for each configuration and question. Runs in a worker.

    All configurations have the same index.
    """
    with index.one_thread():
        chunks = index.cut(group.documents, group.configurations[0])
        shared: dict[tuple[Any, ...], Sequence[Prepared | Result]] = {}
        found = []
        for config in group.configurations:
            ignored = NOT_EXTRACTIVE if config.extractive else ("llm.temperature", "extractive.")
            read = tuple(value for key, value in config.settings().items() if not key.startswith(ignored))
            if (config.llm_model, read) not in shared:
                shared[config.llm_model, read] = _prepared(group, config, chunks)
            found.append([(_prompt_key(config, item), item) for item in shared[config.llm_model, read]])
        return found


def _prompt_key(config: SweepConfig, item: Prepared | Result) -> str:
    if isinstance(item, Result) or item.prompt is None:
        return ""
    options = (config.llm_temperature, config.llm_max_tokens)
    return content_key(index.versions(), index.model_identities(config, "llm.model"), options, asdict(item.prompt))


def _prepared(group: Sweep, config: SweepConfig, chunks: list[Chunk]) -> Sequence[Prepared | Result]:
    hits = zip(group.questions, index.retrieved(group.documents, group.questions, config, chunks), strict=True)
    found = [(question, _retriever(ranked)) for question, ranked in hits]
    k = config.retrieval_top_k
    if config.extractive:
        reader = _reader(config.embedding_model, config.extractive_threshold)
        return [_judged(reader.answer(question.text, retriever, k), question) for question, retriever in found]
    llm = index.load_llm(config.llm_model)
    if config.llm_max_tokens >= llm.window:
        raise ValueError(
            f"llm.max_tokens is {config.llm_max_tokens}, and the window of {config.llm_model} is {llm.window}: "
            "lower llm.max_tokens, so that sources fit in."
        )
    options: AnswerOptions = {
        "threshold": config.retrieval_threshold,
        "clean": config.clean_context_instructions,
        "order": order_for_long_context if config.prompt_order == "long_context" else list,
        "history": group.history(config),
        "template": group.templates[config.prompt_system_prompt_path],
        "max_tokens": config.llm_max_tokens,
    }
    return [prepare(question.text, retriever, llm, k, **options) for question, retriever in found]


def _retriever(ranked: list[Hit]) -> Retriever:
    return lambda question, k: ranked[:k]


@functools.cache
def _reader(encoder: str, threshold: float | None) -> ExtractiveReader:
    return ExtractiveReader(index.load_encoder(encoder), threshold)


def _result(item: Prepared | Result, completion: Completion | CallFailed | None, question: Question) -> Result:
    if isinstance(item, Result):
        return item
    answer = failed(item, str(completion)) if isinstance(completion, CallFailed) else conclude(item, completion)
    return _judged(answer, question)


def _judged(answer: Answer, question: Question) -> Result:
    return Result(outcome(answer, question), diagnose(answer, question), answer.trace.usage)


# When a key that is not at its default makes no difference to a run, and why.
_WITHOUT_EFFECT: dict[str, tuple[Callable[[SweepConfig], bool], str]] = {
    "embedding.model": (
        lambda c: (
            c.retrieval_method == "bm25"
            and c.retrieval_rerank != "max_sim"
            and c.chunking_strategy != "by_tokens"
            and not c.extractive
        ),
        "nothing is embedded",
    ),
    "embedding.late": (lambda c: c.retrieval_method == "bm25", "bm25 searches without vectors"),
    "context.method": (
        lambda c: c.context_unread,
        "embedding.late embeds the document itself, and nothing else reads the context",
    ),
    "context.model": (lambda c: c.context_method != "llm", "only context.method llm has a model write the context"),
    "extractive.threshold": (lambda c: not c.extractive, "only the extractive reader has it"),
    "dialog_history_path": (lambda c: not c.dialog_history and not c.extractive, "dialog_history is 0"),
}


def plan(sweep: Sweep) -> str:
    """What a run would do and, for paid models, cost.

    Raises ValueError if a paid model is used in mode *offline*, RuntimeError if its key is missing.
    """
    runs, questions = len(sweep.configurations), len(sweep.questions)
    text = (
        f"{sweep.name}: {runs} runs ({sweep.mode}) with {len({c.index for c in sweep.configurations})} indexes over "
        f"{len(sweep.documents)} documents, {questions} questions each: {runs * questions} answers."
    )
    text += "".join(f" {note}" for note in _notes(sweep))
    models = {c.llm_model for c in sweep.configurations}
    models |= {c.context_model for c in sweep.configurations if c.pays_for_context}
    paid = sorted(filter(is_paid, models))
    if not paid:
        return f"{text} No paid model is called."
    if settings.mode() == "offline":
        raise ValueError(
            f"{paid[0]} is paid, and RAG_LAB_MODE is 'offline': set it to 'live' with a key, or to 'replay'."
        )
    if settings.mode() == "live":
        for name in paid:
            _ = ClaudeLLM(name).client  # raises RuntimeError if there is no key
    dollars, left = _most_dollars(sweep), spending.BUDGET.left()
    over = "; MORE THAN IS LEFT, the run will stop at the cap" if dollars > left else ""
    return f"{text} Paid models: up to about {usd(dollars)}, if no two prompts are equal; {usd(left)} left{over}."


def _notes(sweep: Sweep) -> list[str]:
    """What the file sets without effect, and in how many of the runs."""
    notes, runs = [], len(sweep.configurations)
    quoting = [c for c in sweep.configurations if c.extractive]
    idle = [key for key in KEYS if key.startswith(NOT_EXTRACTIVE) and key != "llm.model"]
    idle = [key for key in idle if key in sweep.swept or any(_is_set(c, key) for c in quoting)]
    if idle and quoting:
        notes.append(f"To llm.model extractive, which has no prompt, {', '.join(idle)} makes no difference.")
    for key, (without_effect, why) in _WITHOUT_EFFECT.items():
        if found := sum(_is_set(c, key) and without_effect(c) for c in sweep.configurations):
            notes.append(f"In {found} of {runs} runs {key} makes no difference: {why}.")
    late = [c for c in sweep.configurations if c.embedding_late and c.context_method != "none"]
    if partly := sum(c.retrieval_method != "bm25" and not c.context_unread for c in late):
        notes.append(
            f"In {partly} of {runs} runs the context of context.method reaches BM25 or the reranker only: the "
            "vectors of embedding.late are those of the document itself."
        )
    return notes


def _is_set(config: SweepConfig, key: str) -> bool:
    return getattr(config, KEYS[key]) != getattr(DEFAULT, KEYS[key])


def _most_dollars(sweep: Sweep) -> float:
    """The cost with the longest passages in every prompt, and answers as long as they may be."""
    total = 0.0
    texts = {document.id: document.text for document in sweep.documents}
    contexts_of = set()
    for config in sweep.configurations:
        if not (config.pays_for_context or is_paid(config.llm_model)):
            continue
        chunks = index.cut(sweep.documents, config.model_copy(update={"context_method": "none"}))
        if config.pays_for_context and config.index[2:] not in contexts_of:  # vectors make no difference to contexts
            contexts_of.add(config.index[2:])
            contexts = [context_prompt(texts[chunk.doc_id], chunk.text) for chunk in chunks]
            total += ClaudeLLM(config.context_model).estimate(contexts, CONTEXT_TOKENS).dollars
        if is_paid(config.llm_model):
            longest = sorted(chunks, key=lambda chunk: -len(chunk.text))[: config.retrieval_top_k]
            layout = assign_sources(longest), sweep.history(config), sweep.templates[config.prompt_system_prompt_path]
            prompts = [build_prompt(question.text, *layout) for question in sweep.questions]
            llm, max_tokens = ClaudeLLM(config.llm_model), config.llm_max_tokens
            total += llm.estimate(prompts, max_tokens, temperature=config.llm_temperature).dollars
    return total
