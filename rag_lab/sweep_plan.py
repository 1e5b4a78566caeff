"""What a sweep will do, what it may cost, and the keys that its rows are kept under."""

from collections.abc import Callable, Sequence
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
from rag_lab.sweep_keys import KEYS, MODELS, NOT_EXTRACTIVE, Configuration, context_unread
from rag_lab.sweep_stages import Group, history

CONTEXT_TOKENS = 200  # the most that ``contextual.situate`` lets Claude write for a chunk

# When a key that is not at its default makes no difference to a run, and why.
_WITHOUT_EFFECT: dict[str, tuple[Callable[[Configuration], bool], str]] = {
    "embedding.model": (
        lambda c: (
            c["retrieval.method"] == "bm25"
            and c["retrieval.rerank"] != "max_sim"
            and c["chunking.strategy"] != "by_tokens"
            and c["llm.model"] != "extractive"
        ),
        "nothing is embedded",
    ),
    "embedding.late": (lambda c: c["retrieval.method"] == "bm25", "bm25 searches without vectors"),
    "context.method": (
        context_unread,
        "embedding.late embeds the document itself, and nothing else reads the context",
    ),
    "context.model": (
        lambda c: c["context.method"] != "llm",
        "only context.method llm has a model write the context",
    ),
    "extractive.threshold": (lambda c: c["llm.model"] != "extractive", "it is the extractive reader's"),
    "dialog_history_path": (
        lambda c: not c["dialog_history"] and c["llm.model"] != "extractive",
        "dialog_history is 0",
    ),
}


def plan(sweep: Sweep) -> str:
    """What a run would do and, for paid models, cost. ValueError or RuntimeError where these cannot be called."""
    runs, questions = len(sweep.configurations), len(sweep.questions)
    text = (
        f"{sweep.name}: {runs} runs ({sweep.mode}) with {len(groups(sweep, range(1, runs + 1)))} indexes over "
        f"{len(sweep.documents)} documents, {questions} questions each: {runs * questions} answers."
    )
    text += "".join(f" {note}" for note in _notes(sweep))
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


def _notes(sweep: Sweep) -> list[str]:
    """What the file sets without effect, in how many of the runs."""
    notes, runs = [], len(sweep.configurations)
    quoting = [c for c in sweep.configurations if c["llm.model"] == "extractive"]
    idle = [key for key in KEYS if key.startswith(NOT_EXTRACTIVE) and key != "llm.model"]
    idle = [key for key in idle if key in sweep.swept or any(c[key] != KEYS[key].default for c in quoting)]
    if idle and quoting:
        notes.append(f"To llm.model extractive, which has no prompt, {', '.join(idle)} makes no difference.")
    for key, (without_effect, why) in _WITHOUT_EFFECT.items():
        found = sum(c[key] != KEYS[key].default and without_effect(c) for c in sweep.configurations)
        if found:
            notes.append(f"In {found} of {runs} runs {key} makes no difference: {why}.")
    partly = [c for c in sweep.configurations if c["embedding.late"] and c["context.method"] != "none"]
    partly = [c for c in partly if c["retrieval.method"] != "bm25" and not context_unread(c)]
    if partly:
        notes.append(
            f"In {len(partly)} of {runs} runs the context of context.method reaches BM25 or the reranker only: the "
            "vectors of embedding.late are those of the document itself."
        )
    return notes


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
