"""The models of a reproduction: which ones, whether they can be loaded here, and their exact revisions."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rag_lab import settings
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.load import is_paid
from rag_lab.llm.local import LocalLLM
from rag_lab.models import hub
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.models.number_format import Model, number_format
from rag_lab.retrieval.rerankers import Reranker, cross_encoder, listwise, max_sim, with_first_stage
from rag_lab.storage import cached_array, content_key

Item = TypeVar("Item")
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")  # a server of one's own needs no key


@dataclass(frozen=True)
class Models:
    """What a run uses. Models are short names, hub ids, paths or ``claude-…``; "" means none.

    Without ``llm``, contexts are made without a model. ``reranker`` is a cross-encoder or ``claude-…``; without one,
    rows that rerank use MaxSim of the encoder, fused with the first search. ``dtype`` None is the fastest one here.
    ``sample`` is the number of questions, evenly spread; None means all.
    """

    encoder: str = ""
    llm: str = ""
    reranker: str = ""
    dtype: str | None = None
    allow_remote_code: bool = False
    sample: int | None = None

    @property
    def names(self) -> list[str]:
        """The names of the models, without empty ones."""
        return [name for name in (self.encoder, self.llm, self.reranker) if name]

    @property
    def description(self) -> str:
        """Every model with its revision and number format."""
        kinds: tuple[Model, ...] = ("encoder", "language model")
        used = [kind for kind, name in zip(kinds, (self.encoder or self.reranker, self.llm), strict=True) if name]
        dtypes = [self.dtype or number_format(kind, hub.device()).dtype for kind in used]
        dtype = " and ".join(dict.fromkeys(dtypes))
        return "; ".join(f"{name} ({revision(name)}), {dtype}" for name in self.names) or "no model"

    def load_encoder(self) -> Encoder:
        """The embedding model."""
        return Encoder.load(self.encoder, dtype=self.dtype, allow_remote_code=self.allow_remote_code)

    def load_llm(self) -> LanguageModel:
        """The language model: Claude or a local one."""
        return ClaudeLLM(self.llm) if is_paid(self.llm) else LocalLLM.load(self.llm, dtype=self.dtype)

    def load_reranker(self, encoder: Encoder | None = None) -> Reranker:
        """The reranker. If none is named, it is MaxSim of ``encoder``, which is loaded if not given."""
        if is_paid(self.reranker):
            return listwise(ClaudeLLM(self.reranker))
        if self.reranker:
            return cross_encoder(self.reranker, dtype=self.dtype)
        return with_first_stage(max_sim(encoder or self.load_encoder()))

    def subsample(self, items: Sequence[Item]) -> list[Item]:
        """``sample`` of the items, evenly spread; all of them if ``sample`` is None."""
        if not self.sample:
            return list(items)
        return list(items[:: max(1, len(items) // self.sample)][: self.sample])


def missing(models: Models) -> list[str]:
    """One sentence for each model that cannot be loaded now, with the remedy; empty if all can be."""
    problems = []
    kinds: dict[str, hub.ModelKind] = {models.reranker: "classifier", models.llm: "language model"}
    for name in dict.fromkeys(models.names):
        if is_paid(name):
            key = settings.mode() == "replay" or any(os.environ.get(variable) for variable in KEYS)
            if settings.mode() == "offline" or not key:
                problems.append(f"{name}: set ANTHROPIC_API_KEY and RAG_LAB_MODE=live")
            continue
        try:
            hub.resolve(name, kinds.get(name, "encoder"))
        except FileNotFoundError as error:
            problems.append(f"{name}: {error}")
    if not problems and models.encoder and not models.allow_remote_code:
        traits = hub.embedding_traits(hub.resolve(models.encoder))
        if traits.remote_code:
            problems.append(f"{models.encoder}: it runs code from its repository; read it, then --allow-remote-code")
    return problems


def revision(name: str) -> str:
    """The revision of a model's weights; Claude has none beside its name."""
    return "by its name" if is_paid(name) else hub.weights_revision(name)


def cached_vectors(encoder: Encoder, inputs: Any, encode: Callable[[], Vectors]) -> Vectors:
    """Vectors from the cache folder, computed by ``encode`` if missing, so that an interrupted run can be resumed.

    ``inputs`` (JSON content) is everything besides the encoder that determines the vectors.
    """
    key = content_key(encoder.files.name, encoder.files.path_or_id, str(encoder.model.dtype), inputs)
    return cached_array("vectors", key, encode)
