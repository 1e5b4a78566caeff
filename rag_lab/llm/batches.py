"""Message Batches: many completions by Claude at half price, within 24 hours."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from rag_lab import settings
from rag_lab.llm import recordings, spending
from rag_lab.llm.claude import ClaudeLLM, api_errors, completion, response_dollars
from rag_lab.llm.language_model import CallFailed, LanguageModel, Sampling
from rag_lab.llm.prompt import Completion, Prompt
from rag_lab.storage import content_key, write_atomic

MAX_REQUESTS, MAX_BYTES = 10_000, 100_000_000  # of one batch; the API takes 100,000 and 256 MB

Bodies = dict[str, dict[str, Any]]  # request bodies by the key of their recording, which is the batch's custom id


def complete_batch(
    llm: LanguageModel,
    prompts: Sequence[Prompt],
    max_tokens: int = 256,
    poll_seconds: float = 30.0,
    **sampling: Unpack[Sampling],
) -> list[Completion | CallFailed]:
    """Complete ``prompts`` by Message Batches and wait for the results, in the order of ``prompts``.

    1) Recorded requests are answered from disk. 2) The others are submitted, and the batch's id is written to
    ``batches`` in the cache folder. 3) The batch is polled. 4) Results are recorded by their custom id.

    An interrupted run that is started again reads the batches that it submitted, and submits only what is missing. An
    expired, cancelled or failed request is a CallFailed with its reason; a later run submits it again.

    Raises ValueError if ``llm`` is not Claude, OverBudget before anything is sent if the whole could pass the cap,
    CallFailed if a batch cannot be submitted or read, and what ``ClaudeLLM.complete`` raises for prompts and modes.
    """
    if not isinstance(llm, ClaudeLLM):
        raise ValueError(f"{llm.name} has no Message Batches; use Claude, or leave as_batch out.")
    requests = [llm.request(prompt, max_tokens, **sampling) for prompt in prompts]
    keys = [content_key(llm.request_identity(body)) for body in requests]
    bodies = dict(zip(keys, requests, strict=True))
    missing = {key: body for key, body in bodies.items() if recordings.find(llm.request_identity(body)) is None}
    failures = _run(llm, missing, poll_seconds) if missing else {}
    records = {key: recordings.store().get(key) for key in keys}
    echoes = bool(llm.name != llm.model)
    return [completion(bodies[key], record, echoes) if (record := records[key]) else failures[key] for key in keys]


def _run(llm: ClaudeLLM, missing: Bodies, poll_seconds: float) -> dict[str, CallFailed]:
    """Submit the requests that are in no batch yet, record every result, and return the failures by key."""
    folder = settings.cache_folder() / "batches"
    submitted = {path: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    submitted = {path: keys for path, keys in submitted.items() if not missing.keys().isdisjoint(keys)}
    known = set().union(*submitted.values())
    new = {key: body for key, body in missing.items() if key not in known}
    failures: dict[str, CallFailed] = {}
    with spending.paid_work(llm.estimate_requests(list(new.values()), batch=True)):
        charged = 0.0
        if new:
            with llm.spending_on(list(new.values()), batch=True) as call:
                # Without retries, which could submit a batch twice. If an answer is lost, a later run does.
                client = llm.client.with_options(max_retries=0)
                for part in _parts(new):
                    requests: Any = [{"custom_id": key, "params": body} for key, body in part.items()]
                    path = folder / f"{client.messages.batches.create(requests=requests).id}.json"
                    write_atomic(path, json.dumps(list(part)))
                    submitted[path] = list(part)
                    call["dollars"] = charged = call["reserved"]  # until the results say what it cost
        dollars = sum(_collect(llm, path, keys, failures, poll_seconds) for path, keys in submitted.items())
        spending.BUDGET.settle(0.0, dollars - charged)
    return failures


def _parts(bodies: Bodies) -> Iterator[Bodies]:
    """The requests in batches that the API takes."""
    part: Bodies = {}
    size = 0
    for key, body in bodies.items():
        length = len(json.dumps(body))
        if part and (len(part) == MAX_REQUESTS or size + length > MAX_BYTES):
            yield part
            part, size = {}, 0
        part[key] = body
        size += length
    yield part


def _collect(
    llm: ClaudeLLM, path: Path, keys: Sequence[str], failures: dict[str, CallFailed], poll_seconds: float
) -> float:
    """Wait for a batch, record its results, delete its file, and return its dollars.

    If it cannot be read, the file stays for a later run, unless the server no longer has the batch.
    """
    batches = llm.client.messages.batches
    unread = set(keys)
    dollars = 0.0
    try:
        while batches.retrieve(path.stem).processing_status != "ended":
            time.sleep(poll_seconds)
        with contextlib.closing(batches.results(path.stem)) as results:
            for item in results:
                unread.discard(item.custom_id)
                if item.result.type == "succeeded":
                    response = item.result.message.to_dict(mode="json")
                    cost = response_dollars(llm.model, response, batch=True)
                    record = {"response": response, "seconds": 0.0, "dollars": cost}
                    recordings.keep(item.custom_id, llm.model, record)
                    dollars += cost
                    continue
                error = getattr(getattr(item.result, "error", None), "error", None)
                reason = item.result.type + (f", {error.type}: {error.message}" if error else "")
                failures[item.custom_id] = CallFailed(f"Batch {path.stem}, request {item.custom_id[:12]}: {reason}.")
        if unread:
            raise ValueError(f"{len(unread)} of {len(keys)} results are missing")
    except api_errors() as error:
        if getattr(error, "status_code", None) == 404:
            path.unlink()
        raise CallFailed(f"Batch {path.stem} was not read: {llm.reason(error)}. Run it again to read it.") from None
    path.unlink()
    return dollars
