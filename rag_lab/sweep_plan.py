"""What a sweep will do, what it may cost, and the keys that its rows are kept under."""

from collections.abc import Sequence
from dataclasses import asdict

from rag_lab import budget, settings, sweep_cache
from rag_lab.claude import ClaudeLLM
from rag_lab.contextual import context_prompt
from rag_lab.costs import usd
from rag_lab.language_models import is_paid
from rag_lab.prompting import assign_sources, build_prompt
from rag_lab.store import content_key
from rag_lab.sweep_config import Sweep
from rag_lab.sweep_index import INDEX_KEYS, cut
from rag_lab.sweep_keys import MODELS, NOT_EXTRACTIVE, Configuration
from rag_lab.sweep_stages import Group, history

CONTEXT_TOKENS = 200  # the most that ``contextual.situate`` lets Claude write for a chunk


def plan(sweep: Sweep) -> str:
    """What a run would do and, for paid models, cost. ValueError or RuntimeError where these cannot be called."""
    runs, questions = len(sweep.configurations), len(sweep.questions)
    text = (
        f"{sweep.name}: {runs} runs ({sweep.mode}) with {len(groups(sweep, range(1, runs + 1)))} indexes over "
        f"{len(sweep.documents)} documents, {questions} questions each: {runs * questions} answers."
    )
    idle = [key for key in sweep.swept if key.startswith(NOT_EXTRACTIVE) and key != "llm.model"]
    if idle and any(c["llm.model"] == "extractive" for c in sweep.configurations):
        text += f" To llm.model extractive, which has no prompt, {', '.join(idle)} makes no difference."
    paid = [c for c in sweep.configurations if is_paid(c["llm.model"]) or pays_for_context(c)]
    if not paid:
        return f"{text} No paid model is called."
    for name in {c["llm.model"] for c in paid} | {c["context.model"] for c in paid if pays_for_context(c)}:
        if is_paid(name) and settings.mode() == "offline":
            raise ValueError(
                f"{name} is paid, and RAG_LAB_MODE is 'offline': set it to 'live' with a key, or to 'replay'."
            )
        if is_paid(name) and settings.mode() == "live":
            _ = ClaudeLLM(name).client  # raises where there is no key
    dollars, left = _most_dollars(sweep, paid), budget.BUDGET.left()
    over = "; MORE THAN IS LEFT, the run will stop at the cap" if dollars > left else ""
    return f"{text} Paid models: up to about {usd(dollars)}, if no two prompts are equal; {usd(left)} left{over}."


def pays_for_context(configuration: Configuration) -> bool:
    """Whether a paid model writes the chunks' context."""
    return configuration["context.method"] == "llm" and is_paid(configuration["context.model"])


def _most_dollars(sweep: Sweep, paid: Sequence[Configuration]) -> float:
    """With the longest passages in every prompt, and answers as long as they may be."""
    total = 0.0
    situated = set()
    for configuration in paid:
        chunks = cut(sweep.documents, configuration | {"context.method": "none"})
        model, index = configuration["llm.model"], repr([configuration[key] for key in INDEX_KEYS[2:]])
        if pays_for_context(configuration) and index not in situated:
            situated.add(index)
            texts = {document.id: document.text for document in sweep.documents}
            contexts = [context_prompt(texts[chunk.doc_id], chunk.text) for chunk in chunks]
            total += ClaudeLLM(configuration["context.model"]).estimate(contexts, CONTEXT_TOKENS).dollars
        if is_paid(model):
            longest = sorted(chunks, key=lambda chunk: -len(chunk.text))[: configuration["retrieval.top_k"]]
            turns = history(configuration, sweep.histories)
            template = sweep.templates[configuration["prompt.system_prompt_path"]]
            sources = assign_sources(longest)
            prompts = [build_prompt(question.text, sources, turns, template) for question in sweep.questions]
            options = (configuration["llm.max_tokens"], configuration["llm.temperature"])
            total += ClaudeLLM(model).estimate(prompts, *options).dollars
    return total


def row_key(sweep: Sweep, configuration: Configuration) -> str:
    """A hash that changes with everything that shapes the row: data, prompts and history, models, code."""
    named = [configuration["embedding.model"], configuration["llm.model"], configuration["retrieval.rerank"]]
    named += [configuration["context.model"]] if configuration["context.method"] == "llm" else []
    named += ["smollm2"] if "query_likelihood" in named else []
    no_models = {name for names in MODELS.values() for name in names}
    local = [name for name in named if not is_paid(name) and name not in no_models]
    return content_key(
        configuration,
        [asdict(document) for document in sweep.documents],
        [asdict(question) for question in sweep.questions],
        asdict(sweep.templates[configuration["prompt.system_prompt_path"]]),
        history(configuration, sweep.histories),
        [sweep_cache.model_identity(name) for name in local],
        [ClaudeLLM(name).name for name in named if is_paid(name)],
        sweep_cache.code("sweep"),
    )


def groups(sweep: Sweep, numbers: Sequence[int]) -> list[Group]:
    """The configurations of these numbers by index, the first first."""
    found: dict[str, dict[int, Configuration]] = {}
    for number in numbers:
        configuration = sweep.configurations[number - 1]
        index = repr([configuration[key] for key in INDEX_KEYS])
        found.setdefault(index, {})[number] = configuration
    rest = (sweep.documents, sweep.questions, sweep.templates, sweep.histories)
    return [Group(configurations, *rest) for configurations in found.values()]
