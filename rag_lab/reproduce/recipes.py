"""What a published row needs, what it runs, and why it may not be comparable.

The published rows that can be reproduced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from rag_lab import datasets
from rag_lab.positions.multi_document import PAPER_FILE
from rag_lab.reproduce import arithmetic, positions, retrieval
from rag_lab.reproduce.models import Models
from rag_lab.reproduce.retrieval import BGE_M3, CROSS_ENCODER, JINA_3
from rag_lab.results import Comparison

KINDS = ("encoder", "llm", "reranker")
NONE = Models()


@dataclass(frozen=True)
class Recipe:
    """One row. ``paper``: the paper's own models, or the nearest that can still be had; ``offline``: bundled ones.

    ``also`` are further models of the paper, each in place of ``paper``. ``data`` are names in ``DOWNLOADS``;
    ``own_file`` names the paper's own file, read in their place where it was put into a data folder (the name may
    depend on the models), and ``instead`` what stands in for it where it was not. ``differs`` says what is not as
    published even with the paper's models, ``stands_in`` what the bundled ones change; each of the three makes a row
    not comparable. ``waits_for`` names what the row needs where it is not recorded. ``samples``: whether it asks
    questions, of which a sample can be drawn. ``figures`` picks what is shown of the published values until the row
    is recorded. Minutes are about those of 2 cores.
    """

    id: str
    title: str
    published: str
    run: Callable[[Models], list[Comparison]]
    paper: Models = NONE
    offline: Models | None = NONE
    also: tuple[Models, ...] = ()
    data: tuple[str, ...] = ()
    own_file: Callable[[Models], str] = lambda models: ""
    instead: str = ""
    minutes: float = 1
    offline_minutes: float = 1
    dollars: float = 0.0
    differs: str = ""
    stands_in: str = ""
    waits_for: str = ""
    samples: bool = True
    figures: Callable[[dict[str, Any]], dict[str, Any]] = dict

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which of ``KINDS`` the row uses with the models that it names."""
        named = [models for models in (self.paper, self.offline, *self.also) if models]
        return tuple(kind for kind in KINDS if any(getattr(models, kind) for models in named))

    def placed(self, models: Models) -> Path | None:
        """The paper's own file where a data folder has it."""
        name = self.own_file(models)
        return datasets.placed(name) if name else None

    def because(self, models: Models) -> str:
        """Why a run with these models cannot be compared; "" where it can."""
        instead = self.instead if self.own_file(models) and not self.placed(models) else ""
        adapter = "base weights without the task adapter" if models.encoder == JINA_3 else ""
        sample = "a sample" if models.sample else ""
        reasons = [self.differs, instead, adapter, self._another(models), sample]
        return ", ".join(reason for reason in reasons if reason)

    def _another(self, models: Models) -> str:
        """What is said of models that are not the paper's; ``stands_in`` where a bundled one is among them."""

        def others(wanted: Models) -> list[str]:
            return [kind for kind in KINDS if getattr(models, kind) != getattr(wanted, kind)]

        if not all(others(wanted) for wanted in (self.paper, *self.also)):
            return ""
        bundled = self.offline and set(others(self.paper)) - set(others(self.offline))
        return self.stands_in if bundled and self.stands_in else "another model"


JINA_SMALL = "jinaai/jina-embeddings-v2-small-en"
JINA_BASE = "jinaai/jina-embeddings-v2-base-en"
NOMIC = "nomic-ai/nomic-embed-text-v1"
JINA_RERANKER = "jinaai/jina-reranker-v2-base-multilingual"
PHI = "microsoft/Phi-3.5-mini-instruct"
HAIKU = "claude-haiku-5-5"
LONGCHAT = Models(llm="lmsys/longchat-13b-16k")
MPT = Models(llm="mosaicml/mpt-30b-instruct")
LONGCHAT_ROW = "LongChat-13B-16K"
MINILM = Models(encoder="minilm")
MINILM_32 = Models(encoder="minilm", dtype="float32")
SHORT_WINDOW = "another model with a window of 512 tokens"
NFCORPUS = "NFCorpus (python -m rag_lab fetch nfcorpus)"


def _longchat(values: dict[str, Any]) -> dict[str, Any]:
    return {LONGCHAT_ROW: values[LONGCHAT_ROW]}


def _among_documents(
    documents: int, run: Callable[[Models], list[Comparison]], sample: int, minutes: float, offline_minutes: float
) -> Recipe:
    return Recipe(
        f"litm_{documents}docs",
        f"Answer among {documents} documents (%)",
        f"litm_{documents}docs",
        run,
        paper=LONGCHAT,
        also=(MPT,),
        offline=Models(llm="smollm2", sample=sample),
        data=("nq-oracle",),
        own_file=lambda models: PAPER_FILE.format(documents),
        instead="distractors found by BM25 among other questions' passages",
        minutes=minutes,
        offline_minutes=offline_minutes,
        figures=_longchat,
    )


RECIPES = (
    Recipe(
        "minilm_scifact",
        "MiniLM, SciFact, whole abstracts",
        "minilm_scifact",
        retrieval.whole_scifact,
        paper=MINILM_32,
        offline=MINILM_32,
        data=("scifact",),
        minutes=5,
        offline_minutes=5,
    ),
    Recipe(
        "anserini_bm25_scifact",
        "BM25, SciFact, one field",
        "anserini_bm25_scifact",
        retrieval.bm25_scifact,
        data=("scifact",),
    ),
    Recipe(
        "ce_rerank_scifact",
        "Cross-encoder over BM25's 100 best, SciFact",
        "ce_rerank_beir",
        retrieval.cross_encoder_scifact,
        paper=Models(reranker=CROSS_ENCODER),
        also=tuple(
            Models(reranker=f"cross-encoder/ms-marco-{name}")
            for name in ("MiniLM-L2-v2", "MiniLM-L4-v2", "MiniLM-L12-v2", "TinyBERT-L2-v2", "electra-base")
        ),
        offline=None,
        data=("scifact",),
        minutes=40,
        differs="another BM25 below",
        waits_for=f"{CROSS_ENCODER} from the hub",
        figures=lambda values: {"nDCG@10": values["ms-marco-MiniLM-L-6-v2"]["SciFact"]},
    ),
    Recipe(
        "late_berlin",
        "Three sentences about Berlin",
        "late_berlin",
        retrieval.berlin,
        paper=Models(encoder=JINA_BASE, dtype="float32"),
        offline=MINILM_32,
        samples=False,
    ),
    Recipe(
        "late_scifact_fixed256",
        "Late chunking, SciFact, 256 tokens (%)",
        "late_scifact_fixed256",
        retrieval.late_fixed,
        paper=Models(encoder=JINA_SMALL),
        offline=MINILM,
        data=("scifact",),
        minutes=15,
        offline_minutes=7,
        stands_in=SHORT_WINDOW,
    ),
    Recipe(
        "late_scifact_sentences",
        "Late chunking, SciFact, five sentences (%)",
        "late_averages",
        retrieval.late_sentences,
        paper=Models(encoder=JINA_SMALL),
        also=(Models(encoder=JINA_3), Models(encoder=NOMIC)),
        offline=MINILM,
        data=("scifact",),
        minutes=15,
        offline_minutes=7,
        differs="published is the mean over three models and four data sets",
        figures=itemgetter("five sentences"),
    ),
    Recipe(
        "late_scifact_series",
        "Late chunking, SciFact, by chunk size (%)",
        "late_scifact_fixed256",
        retrieval.late_series,
        paper=Models(encoder=JINA_SMALL),
        offline=MINILM,
        data=("scifact",),
        minutes=60,
        offline_minutes=35,
        stands_in=SHORT_WINDOW,
    ),
    Recipe(
        "cookbook_codebases",
        "Contextual retrieval, codebases (%)",
        "cookbook_codebases",
        retrieval.cookbook,
        paper=Models(encoder=JINA_BASE, llm=HAIKU, reranker=CROSS_ENCODER),
        offline=MINILM,
        data=("codebases",),
        minutes=45,
        offline_minutes=6,
        dollars=0.30,
        differs="another encoder and reranker",
        stands_in="the names that a file declares as context instead of Claude's",
    ),
    Recipe(
        "anthropic_failure_rates",
        "The post's reductions (%) from its failure rates",
        "anthropic_reductions",
        arithmetic.blog_reductions,
        samples=False,
    ),
    Recipe(
        "contextual_bm25_reduction",
        "The cookbook's reduction (%) from its own table",
        "contextual_bm25_reduction",
        arithmetic.cookbook_reduction,
        samples=False,
    ),
    Recipe(
        "anthropic_context_cost",
        "Dollars per million document tokens, Claude 3 Haiku",
        "anthropic_context_cost",
        arithmetic.context_cost,
        samples=False,
    ),
    Recipe(
        "cookbook_tokens",
        "Prompt caching over 737 chunks",
        "cookbook_tokens",
        arithmetic.cookbook_tokens,
        samples=False,
        data=("codebases",),
        figures=lambda values: {"% read": values["read from the cache (%)"]},
    ),
    Recipe(
        "merola_nfcorpus",
        "NFCorpus, segments of 512 tokens",
        "merola_nfcorpus",
        retrieval.merola_nfcorpus,
        paper=Models(encoder=JINA_3),
        also=(Models(encoder=BGE_M3),),
        offline=MINILM,
        data=("nfcorpus",),
        minutes=120,
        offline_minutes=10,
        stands_in=SHORT_WINDOW,
        waits_for=f"{NFCORPUS}, and jina-embeddings-v3 for the paper's model",
        figures=itemgetter("Jina v3"),
    ),
    Recipe(
        "merola_contextual_nfcorpus",
        "A fifth of NFCorpus, with and without context",
        "merola_contextual_nfcorpus",
        retrieval.merola_contextual,
        paper=Models(encoder=JINA_3, llm=PHI, reranker=JINA_RERANKER),
        offline=MINILM,
        data=("nfcorpus",),
        minutes=600,
        offline_minutes=15,
        differs="another fifth of the documents",
        stands_in="titles and opening sentences as context, another encoder and reranker",
        waits_for=f"{NFCORPUS}, and Jina v3 with Phi-3.5-mini for the paper's models",
    ),
    Recipe(
        "litm_closedbook_oracle",
        "NQ-Open without and with the answering document (%)",
        "litm_closedbook_oracle",
        positions.closed_book_and_oracle,
        paper=LONGCHAT,
        also=(MPT,),
        offline=Models(llm="smollm2", sample=200),
        data=("nq-oracle",),
        minutes=600,
        offline_minutes=5,
        figures=_longchat,
    ),
    _among_documents(10, positions.ten_documents, sample=60, minutes=600, offline_minutes=8),
    _among_documents(20, positions.twenty_documents, sample=40, minutes=1200, offline_minutes=15),
    _among_documents(30, positions.thirty_documents, sample=20, minutes=1800, offline_minutes=20),
    Recipe(
        "litm_kv",
        "Value of a key among 140 pairs (%)",
        "litm_kv_repo",
        positions.key_values,
        paper=LONGCHAT,
        also=(MPT,),
        offline=Models(llm="smollm2", sample=40),
        own_file=positions.key_value_file,
        instead="pairs made as the paper made its own",
        minutes=600,
        offline_minutes=10,
        stands_in="another model, and sentences instead of UUIDs",
        figures=lambda values: {LONGCHAT_ROW: positions.in_percents(values[LONGCHAT_ROW])},
    ),
    Recipe(
        "crag_scoring",
        "CRAG's truthfulness (%) from its shares",
        "crag_scoring",
        arithmetic.crag_scoring,
        samples=False,
    ),
)
