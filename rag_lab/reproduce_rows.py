"""The published rows that can be reproduced: what each needs, what it runs, and why it may not be comparable."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rag_lab import reproduce_arithmetic, reproduce_contextual, reproduce_positions, reproduce_retrieval
from rag_lab.papers import Comparison
from rag_lab.reproduce_models import Models

JINA_SMALL = "jinaai/jina-embeddings-v2-small-en"
JINA_BASE = "jinaai/jina-embeddings-v2-base-en"
JINA_3 = "jinaai/jina-embeddings-v3"
CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L6-v2"
JINA_RERANKER = "jinaai/jina-reranker-v2-base-multilingual"
PHI = "microsoft/Phi-3.5-mini-instruct"
MPT = "mosaicml/mpt-30b-instruct"
LONGCHAT = "lmsys/longchat-13b-16k"
HAIKU = "claude-haiku-5-5"
NONE = Models()
MINILM = Models(encoder="minilm")


@dataclass(frozen=True)
class Recipe:
    """One row. ``paper``: the paper's own models, or the nearest that can still be had; ``offline``: bundled ones.

    ``also`` are further language models of the paper. ``differs`` says what is not as published even with the
    paper's models, ``stands_in`` what the bundled ones change; either makes a row not comparable, and so may
    ``check`` at the time of the run. ``waits_for`` names what the row needs where it is not recorded. Minutes are
    about those of 2 cores.
    """

    id: str
    title: str
    published: str
    run: Callable[[Models], list[Comparison]]
    paper: Models
    offline: Models | None
    data: tuple[str, ...] = ()
    minutes: float = 1
    offline_minutes: float = 1
    dollars: float = 0.0
    differs: str = ""
    stands_in: str = ""
    check: Callable[[], str] = str
    also: tuple[str, ...] = ()
    waits_for: str = ""

    def because(self, models: Models) -> str:
        """Why a run with these models cannot be compared; "" where it can."""
        names = ("encoder", "llm", "reranker")
        own = all(getattr(models, name) in (getattr(self.paper, name), *self.also) for name in names)
        stands_in = "" if own else self.stands_in or "another model"
        reasons = [self.differs, self.check(), stands_in, "a sample" if models.sample else ""]
        return ", ".join(reason for reason in reasons if reason)


RECIPES = (
    Recipe(
        "minilm_scifact",
        "MiniLM, SciFact, whole abstracts",
        "minilm_scifact",
        reproduce_retrieval.whole_scifact,
        paper=Models(encoder="minilm", dtype="float32"),
        offline=Models(encoder="minilm", dtype="float32"),
        data=("scifact",),
        minutes=5,
        offline_minutes=5,
    ),
    Recipe(
        "anserini_bm25_scifact",
        "BM25, SciFact, one field",
        "anserini_bm25_scifact",
        reproduce_retrieval.bm25_scifact,
        paper=NONE,
        offline=NONE,
        data=("scifact",),
    ),
    Recipe(
        "ce_rerank_scifact",
        "Cross-encoder over BM25's 100 best, SciFact",
        "ce_rerank_beir",
        reproduce_retrieval.cross_encoder_scifact,
        paper=Models(reranker=CROSS_ENCODER),
        offline=None,
        data=("scifact",),
        minutes=40,
        differs="another BM25 below",
        waits_for=f"{CROSS_ENCODER} from the hub",
    ),
    Recipe(
        "late_berlin",
        "Three sentences about Berlin",
        "late_berlin",
        reproduce_retrieval.berlin,
        paper=Models(encoder=JINA_BASE, dtype="float32"),
        offline=Models(encoder="minilm", dtype="float32"),
        stands_in="another model",
    ),
    Recipe(
        "late_scifact_fixed256",
        "Late chunking, SciFact (%)",
        "late_scifact_fixed256",
        reproduce_retrieval.late_fixed,
        paper=Models(encoder=JINA_SMALL),
        offline=MINILM,
        data=("scifact",),
        minutes=15,
        offline_minutes=10,
        stands_in="another model with a window of 512 tokens",
    ),
    Recipe(
        "late_scifact_sentences",
        "Late chunking, SciFact (%)",
        "late_averages",
        reproduce_retrieval.late_sentences,
        paper=Models(encoder=JINA_SMALL),
        offline=MINILM,
        data=("scifact",),
        minutes=15,
        offline_minutes=10,
        differs="published is the mean over three models and four data sets",
    ),
    Recipe(
        "late_scifact_series",
        "Late chunking, SciFact, by chunk size (%)",
        "late_scifact_fixed256",
        reproduce_retrieval.late_series,
        paper=Models(encoder=JINA_SMALL),
        offline=MINILM,
        data=("scifact",),
        minutes=60,
        offline_minutes=45,
        stands_in="another model with a window of 512 tokens",
    ),
    Recipe(
        "cookbook_codebases",
        "Contextual retrieval, codebases (%)",
        "cookbook_codebases",
        reproduce_contextual.cookbook,
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
        reproduce_arithmetic.blog_reductions,
        paper=NONE,
        offline=NONE,
    ),
    Recipe(
        "contextual_bm25_reduction",
        "The cookbook's reduction (%) from its own table",
        "contextual_bm25_reduction",
        reproduce_arithmetic.cookbook_reduction,
        paper=NONE,
        offline=NONE,
    ),
    Recipe(
        "anthropic_context_cost",
        "Dollars per million document tokens, Claude 3 Haiku",
        "anthropic_context_cost",
        reproduce_arithmetic.context_cost,
        paper=NONE,
        offline=NONE,
    ),
    Recipe(
        "cookbook_tokens",
        "Prompt caching over 737 chunks",
        "cookbook_tokens",
        reproduce_arithmetic.cookbook_tokens,
        paper=NONE,
        offline=NONE,
        data=("codebases",),
    ),
    Recipe(
        "merola_nfcorpus",
        "NFCorpus, segments of 512 tokens",
        "merola_nfcorpus",
        reproduce_retrieval.merola_nfcorpus,
        paper=Models(encoder=JINA_3),
        offline=MINILM,
        data=("nfcorpus",),
        minutes=120,
        offline_minutes=10,
        differs="base weights without the task adapter",
        stands_in="another model with a window of 512 tokens",
        waits_for="NFCorpus (python -m rag_lab fetch nfcorpus), and jina-embeddings-v3 for the paper's model",
    ),
    Recipe(
        "merola_contextual_nfcorpus",
        "A fifth of NFCorpus, with and without context",
        "merola_contextual_nfcorpus",
        reproduce_contextual.merola_contextual,
        paper=Models(
            encoder=JINA_3,
            llm="microsoft/Phi-3.5-mini-instruct",
            reranker="jinaai/jina-reranker-v2-base-multilingual",
        ),
        offline=MINILM,
        data=("nfcorpus",),
        minutes=600,
        offline_minutes=15,
        differs="another fifth of the documents",
        stands_in="titles and opening sentences as context, another encoder and reranker",
        waits_for="NFCorpus (python -m rag_lab fetch nfcorpus), and Jina v3 with Phi-3.5-mini for the paper's models",
    ),
    Recipe(
        "litm_closedbook_oracle",
        "NQ-Open without and with the answering document (%)",
        "litm_closedbook_oracle",
        reproduce_positions.closed_book_and_oracle,
        paper=Models(llm=LONGCHAT),
        also=(MPT,),
        offline=Models(llm="smollm2", sample=200),
        data=("nq-oracle",),
        minutes=600,
        offline_minutes=5,
    ),
    Recipe(
        "litm_10docs",
        "Answer among 10 documents (%)",
        "litm_10docs",
        reproduce_positions.ten_documents,
        paper=Models(llm=LONGCHAT),
        also=(MPT,),
        offline=Models(llm="smollm2", sample=60),
        data=("nq-oracle",),
        minutes=600,
        offline_minutes=8,
        check=partial(reproduce_positions.other_distractors, 10),
    ),
    Recipe(
        "litm_20docs",
        "Answer among 20 documents (%)",
        "litm_20docs",
        reproduce_positions.twenty_documents,
        paper=Models(llm=LONGCHAT),
        also=(MPT,),
        offline=Models(llm="smollm2", sample=40),
        data=("nq-oracle",),
        minutes=1200,
        offline_minutes=15,
        check=partial(reproduce_positions.other_distractors, 20),
    ),
    Recipe(
        "litm_30docs",
        "Answer among 30 documents (%)",
        "litm_30docs",
        reproduce_positions.thirty_documents,
        paper=Models(llm=LONGCHAT),
        also=(MPT,),
        offline=Models(llm="smollm2", sample=20),
        data=("nq-oracle",),
        minutes=1800,
        offline_minutes=20,
        check=partial(reproduce_positions.other_distractors, 30),
    ),
    Recipe(
        "litm_kv",
        "Value of a key among 140 pairs (%)",
        "litm_kv_repo",
        reproduce_positions.key_values,
        paper=Models(llm=LONGCHAT),
        also=(MPT,),
        offline=Models(llm="smollm2", sample=40),
        minutes=600,
        offline_minutes=10,
        stands_in="another model, and sentences instead of UUIDs in a window of under 16,384 tokens",
    ),
    Recipe(
        "crag_scoring",
        "CRAG's truthfulness (%) from its shares",
        "crag_scoring",
        reproduce_arithmetic.crag_scoring,
        paper=NONE,
        offline=NONE,
    ),
)
