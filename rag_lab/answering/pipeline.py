"""From a question to a checked answer: retrieve, guard, compress, order and fit, prompt, complete, check.

``answer`` does all of it. Its two halves are ``prepare`` (everything before the model is called) and ``conclude``
(everything after), so that many prompts can be completed in one batch between them.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack

from pydantic import BaseModel, model_validator

from rag_lab.answering.abstention import refusal_reason
from rag_lab.answering.trace import Answer, AnswerStatus, Trace
from rag_lab.chunking import slice_chunk
from rag_lab.citations.quotes import QuoteCheck, check_quotes
from rag_lab.citations.validation import CitationReport, blanked, validate_citations
from rag_lab.llm.language_model import CallFailed, LanguageModel
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn
from rag_lab.llm.structured import InvalidJSON, json_schema, parse_json
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.build import MISSING, REFUSAL, Message, begins_with, fit_prompt
from rag_lab.prompting.escaping import unescape
from rag_lab.prompting.injection import Cleaned, Mode, clean_context_instructions, overlaps
from rag_lab.prompting.templates import Source, Template, load_template
from rag_lab.prompting.token_budget import Dropped, Selection
from rag_lab.types import Chunk, Document, Hit, Retriever

RETRY_TOKENS = 400  # reserved for a message that says what was wrong with the JSON and quotes 80 characters of it

# Appended to the system prompt, whose rules it refers to, so that its tokens are counted with the prompt.
JSON_INSTRUCTION = """\
Write your answer as one JSON object and nothing else, in this form:
{"answer": "…", "citations": [{"source_id": "S1", "quote": "…"}], "sufficient": true}
- answer: the text that the rules above ask for, with the ids in square brackets.
- citations: for every claim the id of a source that states it, and the words of that source that do, copied exactly.
- sufficient: true if the sources hold the whole answer; else false, and answer is the part they hold, or empty."""

AnswerForm = Literal["text", "json"]


class QuotedSource(BaseModel):
    """A source that the model cites, and the words that it quotes from it."""

    source_id: str
    quote: str


class JsonAnswer(BaseModel):
    """The JSON form of an answer."""

    answer: str
    citations: tuple[QuotedSource, ...]
    sufficient: bool

    @model_validator(mode="after")
    def _not_empty(self) -> "JsonAnswer":
        if self.sufficient and not _visible(self.answer):
            raise ValueError("answer is empty, though sufficient is true")
        return self


class AnswerOptions(TypedDict, total=False):
    """The keywords of ``prepare``, which ``answer``, ``stream_answer`` and ``answer_with_documents`` take too."""

    threshold: float | None
    clean: Mode
    encoder: Encoder | None
    compress: Callable[[str, Sequence[Chunk]], Selection] | None
    documents: Iterable[Document]
    order: Callable[[Sequence[Chunk]], Sequence[Chunk]]
    history: Sequence[Message]
    template: Template | None
    query_aware: bool
    max_tokens: int
    budget_tokens: int | None
    form: AnswerForm


@dataclass(frozen=True)
class Prepared:
    """A question up to the call of the model; ``trace`` has what was done until then.

    ``trace.prompt`` is None if no model is to be called. Then ``reason`` says why: there is nothing to answer from,
    or (``call_failed``) the call of an earlier step failed: of a reranker, a judge or an extractor.
    """

    trace: Trace
    form: AnswerForm = "text"
    max_tokens: int = 256
    sources: tuple[Source, ...] = ()
    reason: str = ""
    call_failed: bool = False

    @property
    def prompt(self) -> Prompt | None:
        """The prompt to complete, or None."""
        return self.trace.prompt


def answer(
    question: str, retriever: Retriever, llm: LanguageModel, k: int = 5, **options: Unpack[AnswerOptions]
) -> Answer:
    """The answer of ``llm`` from the ``k`` best passages, checked, with its trace.

    ``options`` are the keywords of ``prepare``, which may refuse before any model is called. ``conclude`` describes
    the statuses. Malformed JSON is shown to the model once, with the error. A failed call (``CallFailed``) gives an
    answer with status "error"; everything else, ``OverBudget`` too, is raised.
    """
    prepared = prepare(question, retriever, llm, k, **options)
    if prepared.prompt is None:
        return conclude(prepared)
    completion = None
    try:
        completion = complete(llm, prepared)
        if prompt := retry_prompt(prepared, completion):
            trace = replace(prepared.trace, prompt=prompt, prompt_tokens=llm.count_prompt_tokens(prompt))
            second = complete(llm, replace(prepared, trace=trace))
            prepared = replace(prepared, trace=trace)
            completion = replace(second, usage=completion.usage + second.usage)
    except CallFailed as error:
        return failed(prepared, str(error), completion)
    return conclude(prepared, completion)


def prepare(
    question: str,
    retriever: Retriever,
    llm: LanguageModel,
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
    form: AnswerForm = "text",
) -> Prepared:
    """Retrieve ``k`` passages, remove instructions, compress, merge neighbours, order, fit to the budget, prompt.

    Refuses without a prompt if nothing is found, if the retriever's (or its reranker's) best score is under
    ``threshold``, or if every passage is dropped. ``clean`` and ``encoder``: see ``clean_context_instructions``.
    ``compress``: a partial of ``compress_filter`` or ``compress_extract``. ``documents``, ``order``, ``history``,
    ``template`` and ``query_aware``: see ``fit_prompt``. ``budget_tokens`` is for the whole prompt; by default it is
    the window less the answer (in the JSON form: less two answers and the retry).

    Raises ValueError if the question is blank, ``k`` or ``max_tokens`` is under 1, the threshold is NaN, ``form`` is
    unknown, or the budget exceeds the window or is too small for the prompt without any source.
    """
    if not question.strip():
        raise ValueError("The question is blank: ask something.")
    if k < 1 or max_tokens < 1:
        raise ValueError(f"k is {k} and max_tokens {max_tokens}; both are 1 or more.")
    if threshold is not None and math.isnan(threshold):
        raise ValueError("The threshold is not a number; leave it out to answer whatever the score is.")
    if form not in ("text", "json"):
        raise ValueError(f"There is no form {form!r}; there are text and json.")
    template = template or load_template()
    reserved = max_tokens + llm.thinking_tokens
    if form == "json":
        template = replace(template, system=f"{template.system}\n\n{JSON_INSTRUCTION}".strip())
        reserved += reserved + RETRY_TOKENS + llm.count_tokens(str(json_schema(JsonAnswer)))
    budget = llm.window - reserved if budget_tokens is None else budget_tokens
    if budget + reserved > llm.window:
        raise ValueError(
            f"A budget of {budget} tokens and {reserved} for the answer are more than the {llm.window} of the window "
            f"of {llm.name}: lower one of them."
        )
    hits: tuple[Hit, ...] = ()
    dropped: list[Dropped] = []
    unverified: tuple[str, ...] = ()
    fit, reason, call_failed = None, "", False
    seconds, started = {}, time.perf_counter()
    try:
        hits = tuple(retriever(question, k))
        seconds["retrieve"] = time.perf_counter() - started
        reason = refusal_reason(hits, threshold)
        found = [hit.chunk for hit in hits]
        if reason:
            dropped += [Dropped(chunk, "threshold", reason) for chunk in found]
            found = []
        cleaned = clean_context_instructions(found, clean, encoder)
        if clean == "strip":
            dropped += _stripped(found, cleaned)
        chunks = cleaned.chunks
        if compress and chunks:
            selection = compress(question, chunks)
            chunks, unverified = selection.chunks, selection.unverified_quotes
            dropped += selection.dropped
        if chunks:
            count, findings = llm.count_prompt_tokens, cleaned.findings
            fit = fit_prompt(
                question, chunks, budget, count, history, template, documents, order, findings, query_aware
            )
            dropped += fit.dropped
        seconds["select"] = time.perf_counter() - started - seconds["retrieve"]
    except CallFailed as error:
        reason, call_failed = str(error), True
    trace = Trace(question, hits, tuple(dropped), seconds=seconds, unverified_quotes=unverified)
    if fit and fit.sources:
        trace = replace(trace, prompt=fit.prompt, prompt_tokens=fit.tokens, model=llm.name)
        return Prepared(trace, form, max_tokens, fit.sources)
    if not reason:
        steps = ", ".join(f"{step} {n}" for step, n in Counter(drop.step for drop in dropped).items())
        reason = f"no passage left of {len(hits)} (dropped by {steps})"
    return Prepared(trace, form, max_tokens, reason=reason, call_failed=call_failed)


def _stripped(chunks: Sequence[Chunk], cleaned: Cleaned) -> Iterator[Dropped]:
    """Each removed sentence once, as a slice of the first chunk that contains it."""
    for finding in {(f.doc_id, f.start, f.end): f for f in cleaned.findings}.values():
        chunk = next(chunk for chunk in chunks if overlaps(finding, chunk))
        span = (max(0, finding.start - chunk.start), min(len(chunk.text), finding.end - chunk.start))
        how = f"pattern, {finding.pattern}" if finding.pattern else f"similarity {finding.similarity:.2f}"
        for piece in slice_chunk(chunk, [span]):
            yield Dropped(piece, "clean", f"reads as an instruction ({how})")


def complete(llm: LanguageModel, prepared: Prepared) -> Completion:
    """Complete ``prepared.prompt``, which must not be None. A schema is sent only to a model that enforces it."""
    assert prepared.prompt is not None
    schema = json_schema(JsonAnswer) if prepared.form == "json" and llm.enforces_schema else None
    return llm.complete(prepared.prompt, max_tokens=prepared.max_tokens, schema=schema)


def retry_prompt(prepared: Prepared, completion: Completion) -> Prompt | None:
    """The prompt with the malformed JSON and its error as two more turns; None if the answer can be read."""
    if prepared.form != "json" or completion.stop_reason == "refusal" or prepared.prompt is None:
        return None
    try:
        parse_json(completion.text, JsonAnswer)
    except InvalidJSON as error:
        cut = " It was cut off: be shorter." if completion.stop_reason == "max_tokens" else ""
        message = f"This cannot be read. {error}{cut} Write the whole JSON object again, and nothing else."
        said = completion.text.strip() or "(nothing)"  # the API refuses an empty turn
        turns = (*prepared.prompt.turns, Turn("assistant", (Block(said),)), Turn("user", (Block(message),)))
        return replace(prepared.prompt, turns=turns)
    return None


def conclude(prepared: Prepared, completion: Completion | None = None) -> Answer:
    """The checked answer. ``completion`` is the model's to ``prepared.prompt``, and None if that is None.

    Text form: "refused" if the text begins with ``prompting.REFUSAL``, "partial" if a line begins with ``MISSING``,
    else "answered" (see ``begins_with``; other wordings are not interpreted). JSON form: also "refused"
    if it is empty and not ``sufficient``, and "partial" if it is not ``sufficient``. Status "error": the API refused,
    the JSON is malformed, or the answer is empty. Raises ValueError unless prompt and completion come together.
    """
    if (completion is None) != (prepared.prompt is None):
        raise ValueError("A completion is needed if there is a prompt, and only then.")
    if prepared.call_failed:
        return failed(prepared, prepared.reason)
    if completion is None:
        return _answer(prepared, REFUSAL, "refused", reason=prepared.reason)
    if completion.stop_reason == "refusal":
        return failed(prepared, f"{prepared.trace.model} declined to answer (stop reason: refusal)", completion)
    if prepared.form == "text":
        return check(prepared, completion, completion.text)
    try:
        form = parse_json(completion.text, JsonAnswer)
    except InvalidJSON as error:
        return failed(prepared, f"malformed JSON: {error}", completion)
    quotes = check_quotes([(c.source_id, unescape(c.quote)) for c in form.citations], prepared.sources)
    text = form.answer if _visible(form.answer) else REFUSAL  # empty and not sufficient
    return check(prepared, completion, text, quotes=quotes, sufficient=form.sufficient)


def check(
    prepared: Prepared,
    completion: Completion,
    text: str,
    report: CitationReport | None = None,
    quotes: Sequence[QuoteCheck] = (),
    sufficient: bool = True,
) -> Answer:
    """The answer that shows ``text``, with its status. ``report`` is by default that of the markers in it."""
    started = time.perf_counter()
    report = report or validate_citations(text, prepared.sources)
    if not _visible(blanked(text, [(c.start, c.end) for c in report.citations])):
        reason = "the model wrote nothing but markers" if _visible(text) else "the model wrote nothing"
        return failed(prepared, reason, completion)
    status: AnswerStatus = "answered"
    if begins_with(text, REFUSAL):
        status = "refused"
    elif not sufficient or any(begins_with(line, MISSING) for line in text.splitlines()):
        status = "partial"
    reasons = ["the model found no answer in the sources"] if status == "refused" else []
    if completion.stop_reason == "max_tokens":
        reasons.append(f"cut off at {prepared.max_tokens} tokens")
    trace = replace(prepared.trace, seconds=prepared.trace.seconds | {"check": time.perf_counter() - started})
    return _answer(replace(prepared, trace=trace), text, status, completion, report, quotes, "; ".join(reasons))


def failed(prepared: Prepared, reason: str, completion: Completion | None = None) -> Answer:
    """An answer with status "error". The trace keeps ``completion``, what was written before the failure."""
    return _answer(prepared, "", "error", completion, reason=reason)


def withhold(answer: Answer) -> Answer:
    """The answer itself, or a refusal instead if it has ``problems``; the trace keeps the completion."""
    if answer.status not in ("answered", "partial") or not answer.problems:
        return answer
    report = validate_citations(REFUSAL, answer.sources)
    reason = f"withheld by the checks: {'; '.join(answer.problems)}"
    return replace(answer, text=REFUSAL, status="refused", report=report, quotes=(), reason=reason)


def _answer(
    prepared: Prepared,
    text: str,
    status: AnswerStatus,
    completion: Completion | None = None,
    report: CitationReport | None = None,
    quotes: Sequence[QuoteCheck] = (),
    reason: str = "",
) -> Answer:
    trace = prepared.trace
    if completion:
        seconds = trace.seconds | {"complete": completion.usage.seconds}
        trace = replace(
            trace,
            completion_text=completion.text,
            thinking=completion.thinking,
            usage=completion.usage,
            seconds=seconds,
        )
    report = report or validate_citations(text, prepared.sources)
    return Answer(text, status, prepared.sources, report, trace, tuple(quotes), reason)


def _visible(text: str) -> bool:
    """Whether ``text`` has a visible character: not only white space, zero-width characters and direction marks."""
    return any(character.isprintable() and not character.isspace() for character in text)
