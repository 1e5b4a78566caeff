"""The steps of an answer up to the call of the model: retrieve, gate, clean, compress, merge, fit, order.

It is apart from what follows (``answer_conclude``), so that many prompts can be completed side by side.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rag_lab.answer_form import INSTRUCTION, SCHEMA
from rag_lab.documents import Chunk, Document
from rag_lab.encoder import Encoder
from rag_lab.gates import gate
from rag_lab.injection import Cleaned, Mode, clean_context_instructions, overlaps
from rag_lab.llm import Prompt
from rag_lab.messages import CallFailed
from rag_lab.prompting import FittedPrompt, Message, Source, Template, fit_prompt, load_template
from rag_lab.search import Hit, Retriever
from rag_lab.selection import Dropped, Selection, pieces

RETRY_TOKENS = 200  # left for telling a model what was wrong with its JSON

FormName = Literal["text", "json"]


@dataclass(frozen=True)
class Prepared:
    """A question up to the call of the model.

    ``prompt`` is None where none is to be made: ``refusal`` says why, or ``failure`` which call of a step (a judge,
    an extractor) failed.
    """

    question: str
    model: str = ""
    form: FormName = "text"
    max_tokens: int = 256
    sources: tuple[Source, ...] = ()
    prompt: Prompt | None = None
    prompt_tokens: int = 0
    retrieved: tuple[Hit, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    not_found: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    refusal: str = ""
    failure: str = ""


def prepare(
    question: str,
    retriever: Retriever,
    llm: Any,
    k: int = 5,
    *,
    threshold: float | None = None,
    clean: Mode = "off",
    encoder: Encoder | None = None,
    compress: Callable[[str, Sequence[Chunk]], Selection] | None = None,
    documents: Iterable[Document] = (),
    order: Callable[[Sequence[Chunk]], Sequence[Chunk]] = list,
    history: Sequence[Message] = (),
    template: Template | None = None,
    query_aware: bool = False,
    max_tokens: int = 256,
    budget_tokens: int | None = None,
    form: FormName = "text",
) -> Prepared:
    """Retrieve ``k`` passages, gate, clean, compress, merge and fit to the budget, order, and write the prompt.

    Refused without a prompt where nothing is found, the best score is under ``threshold`` (that of the retriever: of
    its reranker, if it has one), or every passage is dropped. ``clean`` and ``encoder`` as in
    ``clean_context_instructions``; ``compress`` is a partial of ``compress_filter`` or ``compress_extract``;
    ``documents``, ``order``, ``history``, ``template`` and ``query_aware`` as in ``fit_prompt``. ``budget_tokens``
    is for the whole prompt; by default all of the window but for the answer (in the JSON form, two and the retry).

    ValueError for a blank question, a ``k`` or ``max_tokens`` under 1, a threshold that is no number, an unknown
    ``form``, a budget over the window, or one that the prompt passes before any source is in it.
    """
    if not question.strip():
        raise ValueError("The question is blank: ask something.")
    if k < 1 or max_tokens < 1:
        raise ValueError(f"k is {k} and max_tokens {max_tokens}; both are 1 or more.")
    if threshold is not None and math.isnan(threshold):
        raise ValueError("The threshold is not a number; leave it out for no gate.")
    budget = _budget(llm, max_tokens, budget_tokens, form)
    template = template or load_template()
    if form == "json":
        template = replace(template, system=f"{template.system}\n\n{INSTRUCTION}".strip())
    prepared = Prepared(question, llm.name, form, max_tokens)

    started = time.perf_counter()
    try:
        hits = tuple(retriever(question, k))
    except CallFailed as error:
        return replace(prepared, failure=str(error), seconds={"retrieve": time.perf_counter() - started})
    seconds = {"retrieve": time.perf_counter() - started}
    prepared = replace(prepared, retrieved=hits, seconds=seconds, refusal=gate(hits, threshold))
    if prepared.refusal:
        return replace(prepared, dropped=tuple(Dropped(hit.chunk, "gate", prepared.refusal) for hit in hits))

    dropped: list[Dropped] = []
    not_found: list[str] = []

    def fitted() -> FittedPrompt | None:
        """None where no passage is left."""
        found = [hit.chunk for hit in hits]
        cleaned = clean_context_instructions(found, clean, encoder)
        chunks = cleaned.chunks
        if clean == "strip":
            dropped.extend(_stripped(found, cleaned))
        if compress and chunks:
            selection = compress(question, chunks)
            chunks = selection.chunks
            dropped.extend(selection.dropped)
            not_found.extend(selection.refused)
        if not chunks:
            return None
        count = llm.count_prompt_tokens
        fit = fit_prompt(
            question, chunks, budget, count, history, template, documents, order, cleaned.findings, query_aware
        )
        dropped.extend(fit.dropped)
        return fit if fit.sources else None

    started = time.perf_counter()
    failure = ""
    fit = None
    try:
        fit = fitted()
    except CallFailed as error:
        failure = str(error)
    seconds = seconds | {"select": time.perf_counter() - started}
    prepared = replace(prepared, dropped=tuple(dropped), not_found=tuple(not_found), seconds=seconds, failure=failure)
    if fit:
        return replace(prepared, sources=fit.sources, prompt=fit.prompt, prompt_tokens=fit.tokens)
    if failure:
        return prepared
    steps = ", ".join(f"{step} {count}" for step, count in Counter(drop.step for drop in dropped).items())
    return replace(prepared, refusal=f"no passage left of {len(hits)} (dropped by {steps})")


def _budget(llm: Any, max_tokens: int, budget_tokens: int | None, form: str) -> int:
    if form not in ("text", "json"):
        raise ValueError(f"There is no form {form!r}; there are text and json.")
    answer = max_tokens + getattr(llm, "thinking_tokens", 0)
    reserved = answer if form == "text" else 2 * answer + RETRY_TOKENS + llm.count_tokens(str(SCHEMA))
    if budget_tokens is None:
        return int(llm.window - reserved)
    if budget_tokens + reserved > llm.window:
        raise ValueError(
            f"A budget of {budget_tokens} tokens and {reserved} for the answer are more than the {llm.window} of the "
            f"window of {llm.name}: lower one of them."
        )
    return budget_tokens


def _stripped(chunks: Sequence[Chunk], cleaned: Cleaned) -> Iterator[Dropped]:
    """Each sentence that was cut out, once, as a piece of the first chunk that holds it."""
    seen = set()
    for finding in cleaned.findings:
        if (place := (finding.doc_id, finding.start, finding.end)) in seen:
            continue
        seen.add(place)
        chunk = next(chunk for chunk in chunks if overlaps(finding, chunk))
        span = (max(0, finding.start - chunk.start), min(len(chunk.text), finding.end - chunk.start))
        how = f"pattern, {finding.pattern}" if finding.pattern else f"similarity {finding.similarity:.2f}"
        for piece in pieces(chunk, [span]):
            yield Dropped(piece, "clean", f"reads as an instruction ({how})")
