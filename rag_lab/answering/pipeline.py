"""The JSON form of an answer: what the model is asked for, and the reading of what it wrote.

The steps of an answer up to the call of the model: retrieve, gate, clean, compress, merge, fit, order.

It is apart from what follows (``answer_conclude``), so that many prompts can be completed side by side.

An answer from what the model wrote: its form read, its status, its checks, its trace.

From a question to a checked answer: retrieve, gate, clean, compress, fit, write, check.

All that makes an answer is offered here; see ``answer_steps`` and ``answer_conclude`` for the two halves of it.
"""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rag_lab.answering.abstention import refusal_reason
from rag_lab.answering.trace import Answer, AnswerStatus, Trace
from rag_lab.chunking import slice_chunk
from rag_lab.citations.quotes import QuoteCheck, check_quotes
from rag_lab.citations.validation import CitationReport, blanked, validate_citations
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn, Usage
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.build import MISSING, REFUSAL, FittedPrompt, Message, fit_prompt
from rag_lab.prompting.escaping import unescape
from rag_lab.prompting.injection import Cleaned, Mode, clean_context_instructions, overlaps
from rag_lab.prompting.templates import Source, Template, load_template
from rag_lab.prompting.token_budget import Dropped, Selection
from rag_lab.types import Chunk, Document, Hit, Retriever

# Goes behind the system prompt, whose rules it refers to; so that its tokens are counted with the prompt.
INSTRUCTION = """\
Write your answer as one JSON object and nothing else, in this form:
{"answer": "…", "citations": [{"source_id": "S1", "quote": "…"}], "sufficient": true}
- answer: the text that the rules above ask for, with the ids in square brackets.
- citations: for every claim the id of a source that states it, and the words of that source that do, copied exactly.
- sufficient: true if the sources hold the whole answer; else false, and answer is the part they hold, or empty."""

_CITATION = {
    "type": "object",
    "properties": {"source_id": {"type": "string"}, "quote": {"type": "string"}},
    "required": ["source_id", "quote"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "citations": {"type": "array", "items": _CITATION},
        "sufficient": {"type": "boolean"},
    },
    "required": ["answer", "citations", "sufficient"],
    "additionalProperties": False,
}

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_KINDS = {str: "a string", list: "a list", bool: "true or false", dict: "an object"}


@dataclass(frozen=True)
class Form:
    """An answer as the model filled the form in; ``citations`` are (source id, quote)."""

    answer: str
    citations: tuple[tuple[str, str], ...]
    sufficient: bool


def visible(text: str) -> bool:
    """Whether there is a character to be seen: white space and zero-width or direction marks are none."""
    return any(character.isprintable() and not character.isspace() for character in text)


def read_form(text: str) -> Form:
    """The form in ``text``, which is the JSON object and nothing else, but for a Markdown fence around it.

    ValueError, in words that can be shown to the model, for anything that is not JSON, a key that is missing or
    unknown, a value of another type, and an empty answer that calls itself sufficient.
    """
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except json.JSONDecodeError as error:
        raise ValueError(f"It is not JSON: {error}.") from error
    except RecursionError as error:
        raise ValueError("It is not JSON of this form: it is nested too deep.") from error
    fields = _fields(value, {"answer": str, "citations": list, "sufficient": bool}, "it")
    citations = [_fields(c, {"source_id": str, "quote": str}, "a citation") for c in fields["citations"]]
    if fields["sufficient"] and not visible(fields["answer"]):
        raise ValueError("answer is empty, though sufficient is true.")
    pairs = tuple((citation["source_id"], citation["quote"]) for citation in citations)
    return Form(fields["answer"], pairs, fields["sufficient"])


def _fields(value: Any, kinds: Mapping[str, type], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object with the keys {', '.join(kinds)}.")
    if missing := [key for key in kinds if key not in value]:
        raise ValueError(f"{what} has no key {missing[0]!r}.")
    if unknown := [key for key in value if key not in kinds]:
        raise ValueError(f"{what} has the key {unknown[0][:40]!r}; the keys are {', '.join(kinds)}.")
    for key, kind in kinds.items():
        if not isinstance(value[key], kind):
            raise ValueError(f"{key} is not {_KINDS[kind]}.")
    return value


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
    unverified_quotes: tuple[str, ...] = ()
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
    prepared = replace(prepared, retrieved=hits, seconds=seconds, refusal=refusal_reason(hits, threshold))
    if prepared.refusal:
        return replace(prepared, dropped=tuple(Dropped(hit.chunk, "threshold", prepared.refusal) for hit in hits))

    dropped: list[Dropped] = []
    unverified: list[str] = []

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
            unverified.extend(selection.unverified_quotes)
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
    prepared = replace(
        prepared, dropped=tuple(dropped), unverified_quotes=tuple(unverified), seconds=seconds, failure=failure
    )
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
        for piece in slice_chunk(chunk, [span]):
            yield Dropped(piece, "clean", f"reads as an instruction ({how})")


def complete(llm: Any, prepared: Prepared, prompt: Prompt) -> Completion:
    """One call of ``llm`` for what ``prepare`` made, in its form. A local model is asked for JSON by the prompt."""
    asked = {"schema": SCHEMA} if prepared.form == "json" and not isinstance(llm, LocalLLM) else {}
    completion: Completion = llm.complete(prompt, max_tokens=prepared.max_tokens, **asked)
    return completion


def retry_prompt(prepared: Prepared, completion: Completion) -> Prompt | None:
    """The prompt with what the model wrote and what is wrong with it, as turns; None where its form can be read."""
    if prepared.form != "json" or completion.stop_reason == "refusal" or prepared.prompt is None:
        return None
    try:
        read_form(completion.text)
    except ValueError as error:
        cut = " It was cut off: be shorter." if completion.stop_reason == "max_tokens" else ""
        told = f"This cannot be read. {error}{cut} Write the whole JSON object again, and nothing else."
        said = completion.text.strip() or "(nothing)"  # an empty turn is refused by the API
        turns = (*prepared.prompt.turns, Turn("assistant", (Block(said),)), Turn("user", (Block(told),)))
        return replace(prepared.prompt, turns=turns)
    return None


def conclude(prepared: Prepared, completion: Completion | None = None) -> Answer:
    """The answer, checked. ``completion`` is what the model wrote to ``prepared.prompt``; None where that is None.

    Text form: refused where it begins with ``prompting.REFUSAL``, partial where a line begins with ``MISSING``, else
    answered; case and white space make no difference, and no other wording is guessed at. JSON form: refused too
    where it is not ``sufficient`` and empty, partial where it is not ``sufficient``. An error is: a refusal by the
    API, malformed JSON, and an answer without a character. ValueError for a completion too many or too few.
    """
    if (completion is None) != (prepared.prompt is None):
        raise ValueError("A completion is needed where there is a prompt, and only there.")
    if prepared.failure:
        return failed(prepared, prepared.failure)
    if completion is None:
        return refused(prepared, prepared.refusal)
    if completion.stop_reason == "refusal":
        return failed(prepared, f"{prepared.model} declined to answer (stop reason: refusal)", completion)
    started = time.perf_counter()
    if prepared.form == "text":
        return assess(prepared, completion, completion.text, started=started)
    try:
        form = read_form(completion.text)
    except ValueError as error:
        return failed(prepared, f"malformed JSON: {error}", completion)
    quotes = check_quotes([(id_, unescape(quote)) for id_, quote in form.citations], prepared.sources)
    text = form.answer if visible(form.answer) else REFUSAL  # empty and not sufficient
    return assess(prepared, completion, text, quotes=quotes, sufficient=form.sufficient, started=started)


def assess(
    prepared: Prepared,
    completion: Completion,
    text: str,
    report: CitationReport | None = None,
    quotes: Sequence[QuoteCheck] = (),
    sufficient: bool = True,
    started: float | None = None,
) -> Answer:
    """The answer that shows ``text``, with its status; ``report`` is by default that of the markers in it."""
    if not visible(text):
        return failed(prepared, "the model wrote nothing", completion)
    started = time.perf_counter() if started is None else started
    report = report or validate_citations(text, prepared.sources)
    if not visible(blanked(text, [(c.start, c.end) for c in report.citations])):
        return failed(prepared, "the model wrote nothing but markers", completion)
    status = text_status(text)
    if status == "answered" and not sufficient:
        status = "partial"
    reasons = ["the model found no answer in the sources"] if status == "refused" else []
    if completion.stop_reason == "max_tokens":
        reasons.append(f"cut off at {prepared.max_tokens} tokens")
    trace = _trace(prepared, completion, {"check": time.perf_counter() - started})
    return Answer(text, status, prepared.sources, report, trace, tuple(quotes), "; ".join(reasons))


def text_status(text: str) -> AnswerStatus:
    """Refused, partial or answered, by the fixed forms that ``data/prompts/strong.txt`` asks for."""
    if _folded(text).startswith(_folded(REFUSAL)):
        return "refused"
    if any(_folded(line).startswith(_folded(MISSING)) for line in text.splitlines()):
        return "partial"
    return "answered"


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def refused(prepared: Prepared, reason: str, completion: Completion | None = None) -> Answer:
    """A refusal of our own; ``completion``: what was written and is not shown."""
    report = validate_citations(REFUSAL, prepared.sources)
    return Answer(REFUSAL, "refused", prepared.sources, report, _trace(prepared, completion, {}), (), reason)


def failed(prepared: Prepared, reason: str, completion: Completion | None = None) -> Answer:
    """An error; ``completion``: what had been written until then, which the trace keeps."""
    report = validate_citations("", prepared.sources)
    return Answer("", "error", prepared.sources, report, _trace(prepared, completion, {}), (), reason)


def withhold(answer: Answer) -> Answer:
    """The answer itself, or a refusal in its place where it has ``problems``; the trace keeps what was written."""
    if answer.status not in ("answered", "partial") or not answer.problems:
        return answer
    report = validate_citations(REFUSAL, answer.sources)
    reason = f"withheld by the checks: {'; '.join(answer.problems)}"
    return replace(answer, text=REFUSAL, status="refused", report=report, quotes=(), reason=reason)


def _trace(prepared: Prepared, completion: Completion | None, seconds: dict[str, float]) -> Trace:
    usage = completion.usage if completion else Usage()
    written = {"complete": usage.seconds} if completion else {}
    return Trace(
        prepared.question,
        prepared.retrieved,
        prepared.dropped,
        prepared.prompt,
        prepared.prompt_tokens,
        completion.text if completion else "",
        prepared.model if prepared.prompt else "",
        usage,
        prepared.seconds | written | seconds,
        prepared.unverified_quotes,
    )


def answer(question: str, retriever: Retriever, llm: Any, k: int = 5, **steps: Any) -> Answer:
    """The answer of ``llm`` (``LocalLLM`` or ``ClaudeLLM``) from the ``k`` best passages, checked, with its trace.

    ``steps`` are the keywords of ``prepare`` (``threshold``, ``clean``, ``compress``, ``order``, ``history``,
    ``template``, ``max_tokens``, ``budget_tokens``, ``form`` …), which may refuse before any model is called; what
    counts as which status is said at ``conclude``. Malformed JSON is shown to the model once, with the error. A
    call that fails (``CallFailed``) makes an answer with status error; anything else, ``OverBudget`` too, is raised.
    """
    prepared = prepare(question, retriever, llm, k, **steps)
    if prepared.prompt is None:
        return conclude(prepared)
    completion = None
    try:
        completion = complete(llm, prepared, prepared.prompt)
        if again := retry_prompt(prepared, completion):
            tokens = llm.count_prompt_tokens(again)  # may fail too: before the call, whose usage would be lost
            second = complete(llm, prepared, again)
            prepared = replace(prepared, prompt=again, prompt_tokens=tokens)
            completion = Completion(second.text, completion.usage + second.usage, second.stop_reason)
    except CallFailed as error:
        return failed(prepared, str(error), completion)
    return conclude(prepared, completion)
