"""The published rows that can be reproduced.

To add a row: put the published figures into ``data/published/numbers.yaml``, write a function that takes ``Models``
and returns a list of ``Comparison`` (``retrieval.bm25_scifact`` is a short one), and add a ``Recipe`` to ``RECIPES``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from rag_lab import datasets, results
from rag_lab.positions.multi_document import PAPER_FILE
from rag_lab.reproduce import arithmetic, positions, retrieval
from rag_lab.reproduce.models import Models
from rag_lab.reproduce.retrieval import BGE_M3, CROSS_ENCODER, JINA_3
from rag_lab.results import Comparison

KINDS = ("encoder", "llm", "reranker")
NONE = Models()


@dataclass(frozen=True)
class Recipe:
    """One published row: what runs, with which models and data, and how it differs from what was published."""

    id: str  # of the record, data/results/ID.json
    title: str  # in the table; "(%)" if the figures are percentages
    run: Callable[[Models], list[Comparison]]
    published_id: str = ""  # in the registry, if it is not ``id``
    paper: tuple[Models, ...] = (NONE,)  # the paper's models or the nearest available; the first is used by default
    offline: Models | None = NONE  # the bundled models; None if they cannot run the row
    data: tuple[str, ...] = ()  # names in ``datasets.DOWNLOADS``
    paper_file: Callable[[Models], str] = lambda models: ""  # the paper's own file, used if a data folder has it
    substitute: str = ""  # what replaces that file if no data folder has it
    minutes: tuple[float, float] = (1, 1)  # on 2 cores: with the paper's models, with the bundled ones
    differs: str = ""  # what is not as published even with the paper's models
    offline_differs: str = "another model"  # what the bundled models change
    has_questions: bool = True  # whether a sample of them can be drawn
    figures: Callable[[dict[str, Any]], dict[str, Any]] = dict  # of the published values: shown until recorded

    @property
    def published(self) -> results.Published:
        """The registry's entry."""
        return results.published(self.published_id or self.id)

    @property
    def options(self) -> set[str]:
        """The fields of ``Models`` that the command line may change for this row."""
        named = [models for models in (*self.paper, self.offline) if models]
        kinds = {kind for kind in KINDS if any(getattr(models, kind) for models in named)}
        return kinds | {"allow_remote_code"} | ({"sample"} if self.has_questions else set())

    @property
    def requirement(self) -> str:
        """What the row needs before the table can show it."""
        if self.offline is None:
            return f"{', '.join(self.paper[0].names)} from the hub"
        fetch = f"`fetch {' '.join(self.data)}` and " if self.data else ""
        return f"a run: {fetch}`reproduce {self.id} --offline`"

    def placed_file(self, models: Models) -> Path | None:
        """The paper's own file, if a data folder has it."""
        name = self.paper_file(models)
        return datasets.placed(name) if name else None

    def because(self, models: Models) -> str:
        """Why a run with these models is not comparable with what was published; "" if it is."""
        substituted = self.paper_file(models) and not self.placed_file(models)
        reasons = [
            self.differs,
            self.substitute if substituted else "",
            "base weights without the task adapter" if models.encoder == JINA_3 else "",
            self._other_models(models),
            "a sample" if models.sample else "",
        ]
        return ", ".join(reason for reason in reasons if reason)

    def _other_models(self, models: Models) -> str:
        def names(which: Models) -> list[str]:
            return [getattr(which, kind) for kind in KINDS]

        if names(models) in map(names, self.paper):
            return ""
        bundled = names(self.offline) if self.offline else names(self.paper[0])
        chosen = zip(names(models), names(self.paper[0]), bundled, strict=True)
        return self.offline_differs if any(own == ours != paper for own, paper, ours in chosen) else "another model"


JINA_SMALL = Models(encoder="jinaai/jina-embeddings-v2-small-en")
JINA_BASE = "jinaai/jina-embeddings-v2-base-en"
NOMIC = Models(encoder="nomic-ai/nomic-embed-text-v1")
CROSS_ENCODERS = ("MiniLM-L2-v2", "MiniLM-L4-v2", "MiniLM-L12-v2", "TinyBERT-L2-v2", "electra-base")
JINA_RERANKER = "jinaai/jina-reranker-v2-base-multilingual"
PHI = "microsoft/Phi-3.5-mini-instruct"
HAIKU = "claude-haiku-5-5"
POSITION_MODELS = (Models(llm="lmsys/longchat-13b-16k"), Models(llm="mosaicml/mpt-30b-instruct"))
MINILM = Models(encoder="minilm")
MINILM_32 = Models(encoder="minilm", dtype="float32")
SHORT_WINDOW = "another model with a window of 512 tokens"


def _among_documents(count: int, sample: int, minutes: tuple[float, float]) -> Recipe:
    return Recipe(
        f"litm_{count}docs",
        f"Answer among {count} documents (%)",
        partial(positions.documents, count),
        paper=POSITION_MODELS,
        offline=Models(llm="smollm2", sample=sample),
        data=("nq-oracle",),
        paper_file=lambda models: PAPER_FILE.format(count),
        substitute="distractors found by BM25 among other questions' passages",
        minutes=minutes,
    )


RECIPES = (
    Recipe(
        "minilm_scifact",
        "MiniLM, SciFact, whole abstracts",
        retrieval.whole_scifact,
        paper=(MINILM_32,),
        offline=MINILM_32,
        data=("scifact",),
        minutes=(5, 5),
    ),
    Recipe("anserini_bm25_scifact", "BM25, SciFact, one field", retrieval.bm25_scifact, data=("scifact",)),
    Recipe(
        "ce_rerank_scifact",
        "Cross-encoder over BM25's 100 best, SciFact",
        retrieval.cross_encoder_scifact,
        "ce_rerank_beir",
        paper=tuple(
            Models(reranker=name)
            for name in (CROSS_ENCODER, *(f"cross-encoder/ms-marco-{name}" for name in CROSS_ENCODERS))
        ),
        offline=None,
        data=("scifact",),
        minutes=(40, 0),
        differs="another BM25 below",
        figures=lambda values: {"nDCG@10": values["ms-marco-MiniLM-L-6-v2"]["SciFact"]},
    ),
    Recipe(
        "late_berlin",
        "Three sentences about Berlin",
        retrieval.berlin,
        paper=(Models(encoder=JINA_BASE, dtype="float32"),),
        offline=MINILM_32,
        has_questions=False,
    ),
    Recipe(
        "late_scifact_fixed256",
        "Late chunking, SciFact, 256 tokens (%)",
        partial(retrieval.late_tokens, (256,)),
        paper=(JINA_SMALL,),
        offline=MINILM,
        data=("scifact",),
        minutes=(15, 7),
        offline_differs=SHORT_WINDOW,
    ),
    Recipe(
        "late_scifact_sentences",
        "Late chunking, SciFact, five sentences (%)",
        retrieval.late_sentences,
        "late_averages",
        paper=(JINA_SMALL, Models(encoder=JINA_3), NOMIC),
        offline=MINILM,
        data=("scifact",),
        minutes=(15, 7),
        differs="published is the mean over three models and four data sets",
        figures=itemgetter("five sentences"),
    ),
    Recipe(
        "late_scifact_series",
        "Late chunking, SciFact, by chunk size (%)",
        partial(retrieval.late_tokens, retrieval.SIZES),
        "late_scifact_fixed256",
        paper=(JINA_SMALL,),
        offline=MINILM,
        data=("scifact",),
        minutes=(60, 35),
        offline_differs=SHORT_WINDOW,
    ),
    Recipe(
        "cookbook_codebases",
        "Contextual retrieval, codebases (%)",
        retrieval.cookbook,
        paper=(Models(encoder=JINA_BASE, llm=HAIKU, reranker=CROSS_ENCODER),),
        offline=MINILM,
        data=("codebases",),
        minutes=(45, 6),
        differs="another encoder and reranker",
        offline_differs="the names that a file declares as context instead of Claude's",
    ),
    Recipe(
        "anthropic_failure_rates",
        "The post's reductions (%) from its failure rates",
        arithmetic.blog_reductions,
        "anthropic_reductions",
        has_questions=False,
    ),
    Recipe(
        "contextual_bm25_reduction",
        "The cookbook's reduction (%) from its own table",
        arithmetic.cookbook_reduction,
        has_questions=False,
    ),
    Recipe(
        "anthropic_context_cost",
        "Dollars per million document tokens, Claude 3 Haiku",
        arithmetic.context_cost,
        has_questions=False,
    ),
    Recipe(
        "cookbook_tokens",
        "Prompt caching over 737 chunks",
        arithmetic.cookbook_tokens,
        data=("codebases",),
        has_questions=False,
    ),
    Recipe(
        "merola_nfcorpus",
        "NFCorpus, segments of 512 tokens",
        retrieval.merola_nfcorpus,
        paper=(Models(encoder=JINA_3), Models(encoder=BGE_M3)),
        offline=MINILM,
        data=("nfcorpus",),
        minutes=(120, 10),
        offline_differs=SHORT_WINDOW,
        figures=itemgetter("Jina v3"),
    ),
    Recipe(
        "merola_contextual_nfcorpus",
        "A fifth of NFCorpus, with and without context",
        retrieval.merola_contextual,
        paper=(Models(encoder=JINA_3, llm=PHI, reranker=JINA_RERANKER),),
        offline=MINILM,
        data=("nfcorpus",),
        minutes=(600, 15),
        differs="another fifth of the documents",
        offline_differs="titles and opening sentences as context, another encoder and reranker",
    ),
    Recipe(
        "litm_closedbook_oracle",
        "NQ-Open without and with the answering document (%)",
        positions.closed_book_and_oracle,
        paper=POSITION_MODELS,
        offline=Models(llm="smollm2", sample=200),
        data=("nq-oracle",),
        minutes=(600, 5),
    ),
    _among_documents(10, sample=60, minutes=(600, 8)),
    _among_documents(20, sample=40, minutes=(1200, 15)),
    _among_documents(30, sample=20, minutes=(1800, 20)),
    Recipe(
        "litm_kv",
        "Value of a key among 140 pairs (%)",
        positions.key_values,
        "litm_kv_repo",
        paper=POSITION_MODELS,
        offline=Models(llm="smollm2", sample=40),
        paper_file=positions.key_value_file,
        substitute="pairs made as the paper made its own",
        minutes=(600, 10),
        offline_differs="another model, and sentences instead of UUIDs",
    ),
    Recipe("crag_scoring", "CRAG's truthfulness (%) from its shares", arithmetic.crag_scoring, has_questions=False),
)
