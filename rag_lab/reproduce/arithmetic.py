"""Published figures that follow from other published figures or from prices: computed, so without an interval."""

from rag_lab import datasets
from rag_lab.llm import pricing
from rag_lab.metrics import Interval, Outcome, answer_scores
from rag_lab.reproduce.models import Models
from rag_lab.results import Comparison, exactly, published
from rag_lab.retrieval.contextual import context_prompt

ANSWERED: tuple[Outcome, ...] = ("correct", "wrong", "unanswered")
HAIKU_3 = "claude-3-haiku"
SHARE_ROUNDING = 0.1  # points: how far rounding two shares to 0.1 can move their difference


def blog_reductions(models: Models) -> list[Comparison]:
    """The post's reductions of 35, 49 and 67%, from its failure rates of 5.7, 3.7, 2.9 and 1.9%."""
    rates = published("anthropic_failure_rates").values
    reductions = published("anthropic_reductions").values
    return [
        Comparison(name, figure, exactly(100 * (1 - rates[name] / rates["dense"])))
        for name, figure in reductions.items()
    ]


def cookbook_reduction(models: Models) -> list[Comparison]:
    """The cookbook's 42%, from its table: failure rates of contextual dense + BM25 against dense, at each depth."""
    recalls = published("cookbook_codebases").values
    pairs = zip(recalls["dense"], recalls["+ contextual BM25"], strict=True)
    reductions = [100 * (1 - (100 - both) / (100 - dense)) for dense, both in pairs]
    paper = published("contextual_bm25_reduction").values
    return [
        Comparison("mean over 5, 10 and 20", paper["cookbook"], exactly(sum(reductions) / len(reductions))),
        *(Comparison(f"at {k}", None, exactly(r)) for k, r in zip((5, 10, 20), reductions, strict=True)),
    ]


def context_cost(models: Models) -> list[Comparison]:
    """Dollars per million document tokens, from Claude 3 Haiku's prices and the post's lengths."""
    documents = [8000] * 125
    calls = pricing.context_calls(documents)
    prewarmed = pricing.estimate(HAIKU_3, pricing.context_calls(documents, prewarm=True))
    paper = published("anthropic_context_cost").values["usd"]
    return [
        Comparison("each document written to the cache first", paper, exactly(prewarmed.dollars)),
        Comparison("written by the first chunk", None, exactly(pricing.estimate(HAIKU_3, calls).dollars)),
        Comparison("without a cache", None, exactly(pricing.estimate(HAIKU_3, calls, cache="").dollars)),
    ]


def cookbook_tokens(models: Models) -> list[Comparison]:
    """The 77% of prompt tokens read from the cache: from the cookbook's counts, and estimated from its data."""
    counts = published("cookbook_tokens").values
    share = 100 * counts["read"] / (counts["input"] + counts["written"] + counts["read"])
    code = datasets.load_codebases()
    texts = {document.id: document.text for document in code.documents}
    calls = []
    for chunk in code.chunks:
        before, after = context_prompt(texts[chunk.doc_id], chunk.text).turns[0].blocks
        lengths = pricing.token_estimate(after.text), pricing.token_estimate(before.text)
        calls.append(pricing.Call(lengths[0], 100, chunk.doc_id, lengths[1]))
    estimate = pricing.estimate(HAIKU_3, calls)
    total = estimate.input_tokens + estimate.cache_write_tokens + estimate.cache_read_tokens
    return [
        Comparison("% of prompt tokens read, from its counts", counts["read from the cache (%)"], exactly(share)),
        Comparison("estimated, one document at a time", None, exactly(100 * estimate.cache_read_tokens / total)),
    ]


def crag_scoring(models: Models) -> list[Comparison]:
    """The truthfulness in CRAG's Table 5 from its shares, scored +1, 0 and −1 by ``metrics.answer_scores``.

    The interval is the uncertainty that the rounding of the shares leaves.
    """
    rows = []
    for name, row in published("crag_scoring").values.items():
        if not isinstance(row, list) or name == "columns":
            continue
        *shares, truthfulness = row  # correct, wrong, unanswered: percent with one decimal
        outcomes = [o for o, share in zip(ANSWERED, shares, strict=True) for _ in range(round(10 * share))]
        mean = answer_scores(outcomes, wrong_as_minus=True).mean
        assert mean is not None
        value = 100 * mean.value
        measured = Interval(value, value - SHARE_ROUNDING, value + SHARE_ROUNDING, 1)
        rows.append(Comparison(name, truthfulness, measured))
    return rows
