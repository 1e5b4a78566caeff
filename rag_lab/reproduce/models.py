"""Which models a reproduction uses, what it waits for where they cannot be had, and their exact revisions."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rag_lab import settings
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.load import is_paid
from rag_lab.llm.local import LocalLLM
from rag_lab.models import hub
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.retrieval.rerankers import Reranker, cross_encoder, listwise, max_sim, with_first_stage
from rag_lab.storage import cached_array, content_key


@dataclass(frozen=True)
class Models:
    """What a run uses: short names, hub ids, paths, or ``claude-…``; "" for none.

    Without an ``llm`` contexts are made without a model. ``reranker``: a cross-encoder or ``claude-…``; without one
    it is MaxSim of the encoder, fused with the first search. ``dtype`` None is what is quickest here. ``sample``: so
    many questions, evenly spread, instead of all.
    """

    encoder: str = ""
    llm: str = ""
    reranker: str = ""
    dtype: str | None = None
    allow_remote_code: bool = False
    sample: int | None = None

    @property
    def named(self) -> Iterator[str]:
        """The names of all models, without empty ones."""
        yield from (name for name in (self.encoder, self.llm, self.reranker) if name)

    def load_encoder(self) -> Encoder:
        """The embedding model."""
        return Encoder.load(self.encoder, dtype=self.dtype, allow_remote_code=self.allow_remote_code)

    def load_llm(self) -> Any:
        """The language model: Claude or a local one."""
        return ClaudeLLM(self.llm) if is_paid(self.llm) else LocalLLM.load(self.llm, dtype=self.dtype)

    def load_reranker(self, encoder: Encoder | None) -> Reranker:
        """The reranker; ``encoder`` is used where none is named."""
        if is_paid(self.reranker):
            return listwise(ClaudeLLM(self.reranker))
        if self.reranker:
            return cross_encoder(self.reranker, dtype=self.dtype)
        return with_first_stage(max_sim(encoder or self.load_encoder()))

    def few(self, questions: list[Any]) -> list[Any]:
        """The sample of the questions."""
        return questions if not self.sample else questions[:: max(1, len(questions) // self.sample)][: self.sample]

    def described(self) -> str:
        """Every model with its revision and number format."""
        dtype = self.dtype or hub.best_dtype(hub.device())
        return "; ".join(f"{name} ({revision(name)}), {dtype}" for name in self.named) or "no model"


def missing(named: Models) -> list[str]:
    """One sentence for each model that cannot be had now; none where all can."""
    problems = []
    kinds: dict[str, hub.ModelKind] = {named.reranker: "classifier", named.llm: "language model"}
    for name in dict.fromkeys(named.named):
        if is_paid(name):
            if settings.mode() == "offline" or not _has_key():
                problems.append(f"{name}: set ANTHROPIC_API_KEY and RAG_LAB_MODE=live")
            continue
        try:
            hub.resolve(name, kinds.get(name, "encoder"))
        except FileNotFoundError as error:
            problems.append(f"{name}: {error}")
    if named.encoder and not problems and not named.allow_remote_code:
        traits = hub.embedding_traits(hub.resolve(named.encoder))
        if traits.remote_code:
            problems.append(f"{named.encoder}: it runs code from its repository; read it, then --allow-remote-code")
    return problems


def _has_key() -> bool:
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
    return settings.mode() == "replay" or any(os.environ.get(name) for name in names)


def revision(name: str) -> str:
    """Of a package its version, of a hub model its commit, of a folder or Claude that there is none."""
    if is_paid(name):
        return "by its name"
    files = hub.resolve(name)
    if files.source == "package":
        package = hub.BUNDLED[name].package
        return f"{package} {version(package)}"
    if files.source == "path":
        return "a folder"
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(files.path_or_id, "config.json")
    return Path(config).parent.name if isinstance(config, str) else "not in the cache"


def kept_vectors(encoder: Encoder, about: Any, encode: Callable[[], Vectors]) -> Vectors:
    """Vectors that were made before, from the cache folder, so that a run that was stopped need not begin again.

    ``about`` is everything that shapes them besides the encoder.
    """
    key = content_key(encoder.files.name, encoder.files.path_or_id, str(encoder.model.dtype), about)
    return cached_array("vectors", key, encode)
