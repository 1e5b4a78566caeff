"""Many completions by Claude: several documents at once, or as Message Batches at half price."""

import contextlib
import datetime
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rag_lab import budget, messages, recordings, settings
from rag_lab.claude import ClaudeLLM
from rag_lab.llm import Completion, Prompt
from rag_lab.messages import CallFailed
from rag_lab.store import Store, content_key

BATCH_REQUESTS = 10_000  # in one batch; the API takes 100,000 requests or 256 MB
TRIES = 5  # to submit a batch, or to read its results
CLOCKS = datetime.timedelta(minutes=10)  # by which the server's clock may be behind ours

Outcome = Completion | CallFailed


def complete_groups(
    llm: ClaudeLLM,
    groups: Sequence[Sequence[Prompt]],
    max_tokens: int = 256,
    temperature: float = 0.0,
    schema: Mapping[str, Any] | None = None,
    at_once: int = 4,
) -> list[list[Outcome]]:
    """Complete every prompt: ``at_once`` groups at a time, each group in order, one call after the other.

    Put prompts that share a cacheable beginning (one document's chunks) in one group: its first call writes the
    cache that the others read, where parallel first calls would each pay for a write. A call that fails leaves a
    CallFailed in its place. What would fail every call (the cap, a refused key, a prompt that is too long) ends
    the run with that error; whatever was paid for is recorded, and a second run asks only for the rest.
    """
    prompts = [prompt for group in groups for prompt in group]
    stop = threading.Event()

    def run(group: Sequence[Prompt]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for prompt in group:
            if stop.is_set():
                break
            try:
                outcomes.append(llm.complete(prompt, max_tokens, temperature, schema))
            except CallFailed as failure:
                outcomes.append(failure)
            except BaseException:
                stop.set()
                raise
        return outcomes

    estimate = llm.estimate(prompts, max_tokens, temperature, schema)
    with budget.paid_work(estimate), ThreadPoolExecutor(max_workers=at_once) as pool:
        return [future.result() for future in [pool.submit(run, group) for group in groups]]


def complete_batch(
    llm: ClaudeLLM,
    prompts: Sequence[Prompt],
    max_tokens: int = 256,
    temperature: float = 0.0,
    schema: Mapping[str, Any] | None = None,
    poll_seconds: float = 30.0,
) -> list[Outcome]:
    """Complete ``prompts`` by Message Batches: half price, results within 24 hours, in the order of ``prompts``.

    Batches are noted on disk before they are sent, so that a run killed at any moment, started again with these
    prompts, waits for the batch already paid for and submits only what is missing. Results are recorded as they
    are read. An expired, cancelled or failed item is a CallFailed with its reason; a later run submits it again.
    Raises OverBudget before anything is sent where the whole could pass the cap, CallFailed where a batch cannot
    be submitted, and as ``ClaudeLLM.complete`` does for prompts and modes.
    """
    bodies, keys = {}, []
    for prompt in prompts:
        body = llm.request(prompt, max_tokens, temperature, schema)
        keys.append(recordings.key(llm.identity(body)))
        bodies[keys[-1]] = body
    missing = {key: body for key, body in bodies.items() if recordings.find(llm.identity(body)) is None}
    run = _Run(llm, missing, poll_seconds)
    if missing:
        run.finish()
    records = {key: recordings.store().get(key) for key in keys}
    return [messages.completion(bodies[key], r) if (r := records[key]) else run.failures[key] for key in keys]


class _Run:
    """One call of ``complete_batch``: the unrecorded bodies by key, and why some of them failed.

    On disk, ``item <key>`` names the job that a request went out with, and ``job <name>`` the job's batch, which
    is empty between the note and the server's answer.
    """

    def __init__(self, llm: ClaudeLLM, bodies: dict[str, dict[str, Any]], poll_seconds: float) -> None:
        self.llm = llm
        self.bodies = bodies
        self.poll_seconds = poll_seconds
        self.failures: dict[str, CallFailed] = {}
        self.jobs = Store(settings.cache_folder() / "batches.jsonl")

    def finish(self) -> None:
        """Wait for the batches that are out, send what is in none, and record every result."""
        jobs: dict[str, list[str]] = {}
        new = []
        for key in self.bodies:
            if name := (self.jobs.get(f"item {key}") or {}).get("job"):
                jobs.setdefault(name, []).append(key)
            else:
                new.append(key)
        for name, keys in list(jobs.items()):
            if not self._batch(name):  # killed between the note and the answer: did the batch arrive?
                if batch := self._lost_batch(name):
                    self._note(name, batch)
                else:
                    self._forget(keys)
                    new += jobs.pop(name)
        with budget.paid_work(self.llm.estimate_requests([self.bodies[key] for key in new], batch=True)):
            reserved = dict.fromkeys(jobs, 0.0)
            parts = [new[start : start + BATCH_REQUESTS] for start in range(0, len(new), BATCH_REQUESTS)]
            worst = [self.llm.reserve([self.bodies[key] for key in part], batch=True).dollars for part in parts]
            for part, amount in zip(parts, worst, strict=True):
                name = self._submit(part, amount)
                jobs[name], reserved[name] = part, amount
            for name, keys in jobs.items():
                self._collect(name, keys, reserved[name])

    def _batch(self, name: str) -> str:
        return (self.jobs.get(f"job {name}") or {}).get("batch", "")

    def _note(self, name: str, batch: str) -> None:
        self.jobs.put(f"job {name}", {**(self.jobs.get(f"job {name}") or {}), "batch": batch})

    def _forget(self, keys: Iterable[str]) -> None:
        """Note that these requests are in no batch, so that the next run submits them."""
        for key in keys:
            self.jobs.put(f"item {key}", {"job": ""})

    def _submit(self, keys: list[str], reserved: float) -> str:
        """Note a job, send it as one batch and note the batch. Returns the job's name."""
        asked = datetime.datetime.now(datetime.UTC).isoformat()
        name = content_key(keys, asked)
        self.jobs.put(f"job {name}", {"asked": asked, "count": len(keys), "batch": ""})
        for key in keys:
            self.jobs.put(f"item {key}", {"job": name})
        try:
            self._note(name, self._create(name, keys))
        except messages.refusals() + messages.breakages() as error:
            billed = getattr(error, "status_code", 500) >= 500  # perhaps: the note stays, and the next run looks
            if not billed:
                self._forget(keys)
            budget.BUDGET.settle(reserved, reserved if billed else 0.0)
            raise self.llm.failure(self.bodies[keys[0]], error) from error
        return name

    def _create(self, name: str, keys: list[str]) -> str:
        """Send the batch. Not by the SDK's retries: the endpoint knows no repeats, and would bill two batches."""
        client = self.llm.client.with_options(max_retries=0)
        requests: Any = [{"custom_id": key, "params": self.bodies[key]} for key in keys]
        for tries_left in reversed(range(TRIES)):
            try:
                return client.messages.batches.create(requests=requests).id
            except messages.refusals() + messages.breakages() as error:
                status = getattr(error, "status_code", None) or 500
                if not tries_left or (status < 500 and status not in (408, 409, 429)):
                    raise
                self._pause(error)
            if arrived := self._lost_batch(name):
                return arrived
        raise AssertionError("unreachable: the last try returns or raises")

    def _lost_batch(self, name: str) -> str:
        """The batch of job ``name`` where the server took it but its answer was lost; "" where it never came."""
        noted = self.jobs.get(f"job {name}") or {}
        since = datetime.datetime.fromisoformat(noted["asked"]) - CLOCKS
        for batch in self.llm.client.messages.batches.list(limit=100):  # newest first
            if batch.created_at < since:
                break
            if sum(batch.request_counts.to_dict().values()) != noted["count"]:  # type: ignore[arg-type]
                continue
            self._wait(batch.id)  # only its results say whose it is
            with contextlib.closing(self.llm.client.messages.batches.results(batch.id)) as results:
                first = next(iter(results), None)
            if first and (self.jobs.get(f"item {first.custom_id}") or {}).get("job") == name:
                return batch.id
        return ""

    def _wait(self, batch: str) -> None:
        while self.llm.client.messages.batches.retrieve(batch).processing_status != "ended":
            time.sleep(self.poll_seconds)

    def _pause(self, error: Exception) -> None:
        headers = getattr(getattr(error, "response", None), "headers", {})
        try:
            time.sleep(float(headers.get("retry-after", "")))
        except ValueError:
            time.sleep(min(self.poll_seconds, 5.0))

    def _collect(self, name: str, keys: Sequence[str], reserved: float) -> None:
        """Wait for a batch and record its results. One that cannot be read stays noted, to be read by a later run."""
        spent: dict[str, float] = {}
        batch = self._batch(name)
        for tries_left in reversed(range(TRIES)):
            try:
                for key, cost in self._results(name, batch):
                    spent[key] = cost
                break
            except messages.refusals() + messages.breakages() as error:
                gone = getattr(error, "status_code", None) == 404
                if tries_left and not gone:
                    self._pause(error)
                    continue
                failure = self.llm.failure(self.bodies[keys[0]], error)
                for key in keys:
                    if key not in spent:
                        self.failures[key] = CallFailed(f"Batch {batch} was paid for but not read: {failure}")
                budget.BUDGET.settle(reserved, max(reserved, sum(spent.values())))
                if gone:
                    self._forget(keys)
                return
        self._forget(keys)
        for key in set(keys) - set(spent):
            self.failures[key] = CallFailed(f"Batch {batch}: it holds no result for request {key[:12]}.")
        budget.BUDGET.settle(reserved, sum(spent.values()))

    def _results(self, name: str, batch: str) -> Iterator[tuple[str, float]]:
        """Record results as they are read; yield every key and its dollars. Raises ValueError if some are missing."""
        self._wait(batch)
        lines = 0
        with contextlib.closing(self.llm.client.messages.batches.results(batch)) as results:
            for item in results:
                lines += 1
                key = item.custom_id
                if key not in self.bodies:
                    continue
                if item.result.type == "succeeded":
                    response = item.result.message.to_dict(mode="json")
                    yield key, self.llm.keep(self.bodies[key], response, seconds=0.0, batch=True)["dollars"]
                else:
                    error = getattr(getattr(item.result, "error", None), "error", None)
                    reason = item.result.type + (f", {error.type}: {error.message}" if error else "")
                    self.failures[key] = CallFailed(f"Batch {batch}, request {key[:12]}: {reason}.")
                    yield key, 0.0
        if lines < (expected := (self.jobs.get(f"job {name}") or {}).get("count", 0)):
            raise ValueError(f"{lines} of {expected} results came")
