"""An answer from what the model wrote: its form read, its status, its checks, its trace."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_lab.answer_form import SCHEMA, read_form, visible
from rag_lab.answer_steps import Prepared
from rag_lab.citations import CitationReport, QuoteCheck, blanked, check_quotes, validate_citations
from rag_lab.escaping import unescape
from rag_lab.llm import Block, Completion, LocalLLM, Prompt, Turn, Usage
from rag_lab.prompting import MISSING, REFUSAL
from rag_lab.traces import Answer, Status, Trace


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


def text_status(text: str) -> Status:
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
    written = {"write": usage.seconds} if completion else {}
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
        prepared.not_found,
    )
