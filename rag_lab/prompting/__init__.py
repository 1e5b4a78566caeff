"""From hits to a prompt: templates, escaping, guards against injections, a token budget, compression."""

from rag_lab.prompting.build import MISSING, REFUSAL, build_prompt, fit_prompt, order_for_long_context
from rag_lab.prompting.citation_markers import find_citations
from rag_lab.prompting.compression import (
    compress_extract,
    compress_filter,
    keep_judge,
    model_extractor,
    nearest_sentences,
)
from rag_lab.prompting.escaping import escape, unescape
from rag_lab.prompting.injection import clean_context_instructions, find_instructions
from rag_lab.prompting.templates import Source, assign_sources, load_template, render_sources
from rag_lab.prompting.token_budget import context_budget, fit_to_budget

__all__ = [
    "MISSING",
    "REFUSAL",
    "Source",
    "assign_sources",
    "build_prompt",
    "clean_context_instructions",
    "compress_extract",
    "compress_filter",
    "context_budget",
    "escape",
    "find_citations",
    "find_instructions",
    "fit_prompt",
    "fit_to_budget",
    "keep_judge",
    "load_template",
    "model_extractor",
    "nearest_sentences",
    "order_for_long_context",
    "render_sources",
    "unescape",
]
