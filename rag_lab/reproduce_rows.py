"""The published rows that can be reproduced."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from rag_lab import reproduce_arithmetic, reproduce_contextual, reproduce_positions, reproduce_retrieval
from rag_lab.multi_document_task import PAPER_FILE
from rag_lab.papers import Comparison
from rag_lab.reproduce_models import Models
from rag_lab.reproduce_recipe import Recipe
from rag_lab.reproduce_retrieval import BGE_M3, CROSS_ENCODER, JINA_3

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
        reproduce_retrieval.whole_scifact,
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
        reproduce_retrieval.bm25_scifact,
        data=("scifact",),
    ),
    Recipe(
        "ce_rerank_scifact",
        "Cross-encoder over BM25's 100 best, SciFact",
        "ce_rerank_beir",
        reproduce_retrieval.cross_encoder_scifact,
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
        reproduce_retrieval.berlin,
        paper=Models(encoder=JINA_BASE, dtype="float32"),
        offline=MINILM_32,
        samples=False,
    ),
    Recipe(
        "late_scifact_fixed256",
        "Late chunking, SciFact, 256 tokens (%)",
        "late_scifact_fixed256",
        reproduce_retrieval.late_fixed,
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
        reproduce_retrieval.late_sentences,
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
        reproduce_retrieval.late_series,
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
        samples=False,
    ),
    Recipe(
        "contextual_bm25_reduction",
        "The cookbook's reduction (%) from its own table",
        "contextual_bm25_reduction",
        reproduce_arithmetic.cookbook_reduction,
        samples=False,
    ),
    Recipe(
        "anthropic_context_cost",
        "Dollars per million document tokens, Claude 3 Haiku",
        "anthropic_context_cost",
        reproduce_arithmetic.context_cost,
        samples=False,
    ),
    Recipe(
        "cookbook_tokens",
        "Prompt caching over 737 chunks",
        "cookbook_tokens",
        reproduce_arithmetic.cookbook_tokens,
        samples=False,
        data=("codebases",),
        figures=lambda values: {"% read": values["read from the cache (%)"]},
    ),
    Recipe(
        "merola_nfcorpus",
        "NFCorpus, segments of 512 tokens",
        "merola_nfcorpus",
        reproduce_retrieval.merola_nfcorpus,
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
        reproduce_contextual.merola_contextual,
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
        reproduce_positions.closed_book_and_oracle,
        paper=LONGCHAT,
        also=(MPT,),
        offline=Models(llm="smollm2", sample=200),
        data=("nq-oracle",),
        minutes=600,
        offline_minutes=5,
        figures=_longchat,
    ),
    _among_documents(10, reproduce_positions.ten_documents, sample=60, minutes=600, offline_minutes=8),
    _among_documents(20, reproduce_positions.twenty_documents, sample=40, minutes=1200, offline_minutes=15),
    _among_documents(30, reproduce_positions.thirty_documents, sample=20, minutes=1800, offline_minutes=20),
    Recipe(
        "litm_kv",
        "Value of a key among 140 pairs (%)",
        "litm_kv_repo",
        reproduce_positions.key_values,
        paper=LONGCHAT,
        also=(MPT,),
        offline=Models(llm="smollm2", sample=40),
        own_file=reproduce_positions.key_value_file,
        instead="pairs made as the paper made its own",
        minutes=600,
        offline_minutes=10,
        stands_in="another model, and sentences instead of UUIDs",
        figures=lambda values: {LONGCHAT_ROW: reproduce_positions.in_percents(values[LONGCHAT_ROW])},
    ),
    Recipe(
        "crag_scoring",
        "CRAG's truthfulness (%) from its shares",
        "crag_scoring",
        reproduce_arithmetic.crag_scoring,
        samples=False,
    ),
)
