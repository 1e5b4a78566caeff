"""Message Batches: many completions by Claude at half price, within 24 hours."""

import contextlib
import datetime
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rag_lab import settings
from rag_lab.llm import claude, recordings, spending
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Completion, Prompt
from rag_lab.storage import Store, content_key

BATCH_REQUESTS, BATCH_BYTES = 10_000, 100_000_000  # of one batch; the API takes 100,000 and 256 MB
TRIES = 5  # to submit a batch, or to read its results
CLOCKS = datetime.timedelta(minutes=10)  # by which the server's clock may be behind ours

Outcome = Completion | CallFailed


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
        keys.append(recordings.key(llm.request_identity(body)))
        bodies[keys[-1]] = body
    missing = {key: body for key, body in bodies.items() if recordings.find(llm.request_identity(body)) is None}
    run = _Run(llm, missing, poll_seconds)
    if missing:
        run.finish()
    records = {key: recordings.store().get(key) for key in keys}
    return [claude.completion(bodies[key], r) if (r := records[key]) else run.failures[key] for key in keys]


class _Run:
    """One call of ``complete_batch``: the unrecorded bodies by key, and why some of them failed.

    Each batch that is out has a file in ``batches`` in the cache folder: its model, keys, when it was noted, and
    the server's id, which is empty between the note and the answer. Read to its end, the file is removed.
    """

    def __init__(self, llm: ClaudeLLM, bodies: dict[str, dict[str, Any]], poll_seconds: float) -> None:
        self.llm = llm
        self.bodies = bodies
        self.poll_seconds = poll_seconds
        self.failures: dict[str, CallFailed] = {}
        self.folder = settings.cache_folder() / "batches"

    def finish(self) -> None:
        """Wait for the batches that are out, send what is in none, and record every result."""
        jobs = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            job = Store(path).get("job")  # none: killed while noting it, so it was never sent
            if job and not self.bodies.keys().isdisjoint(job["keys"]):
                job["batch"] = job["batch"] or self._lost_batch(job)
                if job["batch"]:
                    jobs[path.stem] = job
                else:
                    path.unlink()
        out = {key for job in jobs.values() for key in job["keys"]}
        new = [key for key in self.bodies if key not in out]
        with spending.paid_work(self.llm.estimate_requests([self.bodies[key] for key in new], batch=True)):
            reserved = dict.fromkeys(jobs, 0.0)
            parts = list(self._parts(new))
            worst = [self.llm.reserve([self.bodies[key] for key in part], batch=True).dollars for part in parts]
            for part, amount in zip(parts, worst, strict=True):
                name, job = self._submit(part, amount)
                jobs[name], reserved[name] = job, amount
            for name, job in jobs.items():
                self._collect(name, job, reserved[name])

    def _parts(self, keys: Sequence[str]) -> Iterator[list[str]]:
        """Keys in batches that the API takes."""
        part: list[str] = []
        size = 0
        for key in keys:
            length = len(json.dumps(self.bodies[key]))
            if part and (len(part) == BATCH_REQUESTS or size + length > BATCH_BYTES):
                yield part
                part, size = [], 0
            part.append(key)
            size += length
        if part:
            yield part

    def _note(self, name: str, job: Mapping[str, Any]) -> None:
        Store(self.folder / f"{name}.jsonl").put("job", dict(job))

    def _forget(self, name: str) -> None:
        (self.folder / f"{name}.jsonl").unlink()

    def _failed(self, error: Exception) -> RuntimeError:
        return self.llm.failure(next(iter(self.bodies.values())), error)

    def _submit(self, keys: list[str], reserved: float) -> tuple[str, dict[str, Any]]:
        """Note a job, send it as one batch and note the batch. Returns the job's name and the job."""
        noted = datetime.datetime.now(datetime.UTC).isoformat()
        name = content_key(keys, noted)
        job = {"model": self.llm.model, "keys": keys, "noted": noted, "batch": ""}
        self._note(name, job)
        try:
            job["batch"] = self._create(job)
        except claude.refusals() + claude.breakages() as error:
            billed = getattr(error, "status_code", 500) >= 500  # perhaps: the note stays, and the next run looks
            if not billed:
                self._forget(name)
            spending.BUDGET.settle(reserved, reserved if billed else 0.0)
            raise self._failed(error) from error
        self._note(name, job)
        return name, job

    def _create(self, job: Mapping[str, Any]) -> str:
        """Send the batch. Not by the SDK's retries: the endpoint knows no repeats, and would bill two batches."""
        client = self.llm.client.with_options(max_retries=0)
        requests: Any = [{"custom_id": key, "params": self.bodies[key]} for key in job["keys"]]
        for tries_left in reversed(range(TRIES)):
            try:
                return client.messages.batches.create(requests=requests).id
            except claude.refusals() + claude.breakages() as error:
                status = getattr(error, "status_code", None) or 500
                if not tries_left or (status < 500 and status not in (408, 409, 429)):
                    raise
                self._pause(error)
            if arrived := self._lost_batch(job):
                return arrived
        raise AssertionError("unreachable: the last try returns or raises")

    def _lost_batch(self, job: Mapping[str, Any]) -> str:
        """The batch of a job that the server took, but whose answer was lost; "" where it never came."""
        since = datetime.datetime.fromisoformat(job["noted"]) - CLOCKS
        try:
            for batch in self.llm.client.messages.batches.list(limit=100):  # newest first
                if batch.created_at < since:
                    break
                if sum(batch.request_counts.to_dict().values()) == len(job["keys"]):  # type: ignore[arg-type]
                    self._wait(batch.id)  # only its results say whose it is
                    with contextlib.closing(self.llm.client.messages.batches.results(batch.id)) as results:
                        first = next(iter(results), None)
                    if first and first.custom_id in job["keys"]:
                        return batch.id
        except claude.refusals() + claude.breakages() as error:
            raise self._failed(error) from error
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

    def _collect(self, name: str, job: Mapping[str, Any], reserved: float) -> None:
        """Wait for a batch and record its results; one that cannot be read stays noted, for a later run to read."""
        spent: dict[str, float] = {}
        for tries_left in reversed(range(TRIES)):
            try:
                spent.update(self._results(job))
                break
            except claude.refusals() + claude.breakages() as error:
                gone = getattr(error, "status_code", None) == 404
                if tries_left and not gone:
                    self._pause(error)
                    continue
                for key in set(job["keys"]) - set(spent):
                    reason = f"Batch {job['batch']} was paid for but not read: {self._failed(error)}"
                    self.failures[key] = CallFailed(reason)
                spending.BUDGET.settle(reserved, max(reserved, sum(spent.values())))
                if gone:
                    self._forget(name)
                return
        spending.BUDGET.settle(reserved, sum(spent.values()))
        self._forget(name)

    def _results(self, job: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
        """Record the results of a batch as they are read, and yield every key with its dollars.

        Raises ValueError where results are missing.
        """
        batch, missing = job["batch"], set(job["keys"])
        self._wait(batch)
        with contextlib.closing(self.llm.client.messages.batches.results(batch)) as results:
            for item in results:
                cost = 0.0
                if item.result.type == "succeeded":
                    response = item.result.message.to_dict(mode="json")
                    record = claude.record(job["model"], response, seconds=0.0, batch=True)
                    cost = recordings.keep(item.custom_id, job["model"], record)["dollars"]
                else:
                    error = getattr(getattr(item.result, "error", None), "error", None)
                    reason = item.result.type + (f", {error.type}: {error.message}" if error else "")
                    failure = CallFailed(f"Batch {batch}, request {item.custom_id[:12]}: {reason}.")
                    self.failures[item.custom_id] = failure
                missing.discard(item.custom_id)
                yield item.custom_id, cost
        if missing:
            raise ValueError(f"{len(missing)} of {len(job['keys'])} results did not come")
