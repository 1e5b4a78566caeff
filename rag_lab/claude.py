"""Claude, or any server that speaks the Messages API: one paid call, recorded, inside the spending cap."""

import contextlib
import dataclasses
import functools
import os
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_lab import budget, costs, messages, recordings, settings
from rag_lab.llm import Completion, Prompt

if TYPE_CHECKING:
    import anthropic

ANSWER_MODEL = "claude-opus-5-5"
SITUATING_MODEL = "claude-haiku-5-5"
RETRIES = 4  # of the SDK, which honours retry-after


class ClaudeLLM:
    """A model behind the Messages API, with the interface of ``LocalLLM``.

    Calls are made in mode *live* only, recorded under everything that shaped them, and never made twice: a
    recorded request is answered from disk at no cost, its ``usage`` being that of the first time. ``client`` is
    an ``anthropic.Anthropic``; without one it is made from ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL. Models that
    can think are asked not to; one that always thinks gets ``effort`` and ``thinking_tokens`` on top of
    ``max_tokens``. ``window`` (tokens) is for servers of your own. Raises ValueError for an unknown model.
    """

    def __init__(
        self,
        model: str = ANSWER_MODEL,
        client: "anthropic.Anthropic | None" = None,
        effort: str = "low",
        thinking_tokens: int = 1024,
        window: int | None = None,
    ) -> None:
        self.price = costs.price(model)
        self.model = model
        self.window = window or self.price.window
        self.effort = effort
        self.thinking_tokens = thinking_tokens if self.price.thinking == "always" else 0
        if client is not None:
            self.client = client  # takes the place of the cached property
        self._locks: dict[str, threading.Lock] = {}
        self._told_uncached = False

    def __repr__(self) -> str:
        return f"ClaudeLLM({self.name!r})"

    @property
    def name(self) -> str:
        """The model, and the server where that is not Anthropic's: a stand-in is never named Claude alone."""
        return f"{self.model}@{self._server}" if self._server else self.model

    @functools.cached_property
    def client(self) -> "anthropic.Anthropic":
        """The SDK's client. Raises RuntimeError where no key is set for Anthropic's own API."""
        import anthropic

        has_key = os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")
        if not has_key and not os.environ.get("ANTHROPIC_BASE_URL"):
            raise RuntimeError(
                f"No key for {self.model}: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a server of your own."
            )
        return anthropic.Anthropic(api_key=None if has_key else "no key", max_retries=RETRIES)

    @property
    def _server(self) -> str:
        made = self.__dict__.get("client")
        url = str(made.base_url) if made else os.environ.get("ANTHROPIC_BASE_URL", "")
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host or host == "anthropic.com" or host.endswith(".anthropic.com"):
            return ""
        # Without user and password: two servers of one host differ by port or path.
        return host + (f":{parts.port}" if parts.port else "") + parts.path.rstrip("/")

    def request(
        self, prompt: Prompt, max_tokens: int, temperature: float = 0.0, schema: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The body of the request for ``prompt``. Raises ValueError for what the model does not take."""
        return messages.request(
            self.price, prompt, max_tokens + self.thinking_tokens, temperature, schema, self.effort
        )

    def identity(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a response to ``body`` is recorded under: the body, and a server that is not Anthropic's."""
        return {**body, "model": self.model} | ({"server": self._server} if self._server else {})

    def complete(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        """The answer to ``prompt``, its beginning included; with ``schema`` (JSON schema) JSON of that form.

        A temperature is sent only to models that take one. Raises ValueError before sending for a prompt that
        does not fit the window or the model, OverBudget where it could pass the cap, CallFailed where the call
        failed, and RuntimeError or LookupError as ``recordings.find`` does.
        """
        body = self.request(prompt, max_tokens, temperature, schema)
        return messages.completion(body, self.send(body))

    def send(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send one Messages body, or find its recording: ``{model, date, response, seconds, dollars}``.

        For requests that ``complete`` does not make, such as documents with citations. Raises as ``complete``.
        """
        identity = self.identity(body)
        with self._locks.setdefault(recordings.key(identity), threading.Lock()):
            record = recordings.find(identity)
            if record is None:
                client = self.client
                with self._paid(body) as reserved:
                    started = time.perf_counter()
                    with self._settled(body, reserved) as outcome:
                        outcome.update(messages.send(client, body))
                    record = self._keep(body, outcome, time.perf_counter() - started)
        return record

    def stream(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> Generator[str, None, Completion]:
        """As ``complete``, in pieces: yields text deltas and returns the Completion; a recording is one delta.

        A stream that breaks raises CallFailed after the deltas that had come; nothing of it is recorded.
        """
        body = self.request(prompt, max_tokens, temperature, schema)
        record = recordings.find(self.identity(body))
        if record is not None:
            finished = messages.completion(body, record)
            if finished.text:
                yield finished.text
            return finished
        client = self.client
        with self._paid(body) as reserved:
            started = time.perf_counter()
            with self._settled(body, reserved) as outcome:
                yield from filter(None, [messages.beginning(body)])
                yield from messages.stream(client, body, outcome)
            record = self._keep(body, outcome, time.perf_counter() - started)
        return messages.completion(body, record)

    def _keep(self, body: Mapping[str, Any], response: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        self._tell_uncached(body, response)
        key = recordings.key(self.identity(body))
        return recordings.keep(key, self.model, messages.record(self.model, response, seconds))

    @contextlib.contextmanager
    def _paid(self, body: dict[str, Any]) -> Iterator[float]:
        """Print the estimate, refuse what does not fit, and yield the dollars set aside for the worst case."""
        with budget.paid_work(self.estimate_requests([body])):
            yield self.reserve([body]).dollars

    def reserve(self, bodies: Sequence[dict[str, Any]], batch: bool = False) -> costs.Estimate:
        """Set the worst case of unpaid requests aside in the ledger: nothing read from a cache, all output used.

        Tokens are bounded offline; only where the bound would pass the window or the cap is the API asked.
        Raises ValueError for a prompt that does not fit the window and OverBudget at the cap.
        """
        calls = [messages.call(body, costs.token_bound) for body in bodies]
        for number, body in enumerate(bodies):
            if calls[number].window > self.window:
                calls[number] = call = self._exact(body, calls[number])
                if call.window > self.window:
                    raise ValueError(
                        f"The prompt has {call.window - call.output_tokens:,} tokens and its answer may take "
                        f"{call.output_tokens:,}; the window of {self.name} is {self.window:,}. Shorten the prompt."
                    )
        what = f"{len(bodies):,} request(s) to {self.name} beginning {recordings.first_words(bodies[0])!r}"
        worst = self._worst(bodies, calls, batch)
        try:
            budget.BUDGET.reserve(worst.dollars, what)
        except budget.OverBudget:
            exact = [self._exact(body, call) for body, call in zip(bodies, calls, strict=True)]
            worst = self._worst(bodies, exact, batch)
            budget.BUDGET.reserve(worst.dollars, what)
        return worst

    def _worst(self, bodies: Sequence[dict[str, Any]], calls: Sequence[costs.Call], batch: bool) -> costs.Estimate:
        apart = [dataclasses.replace(call, prefix=call.prefix and str(n)) for n, call in enumerate(calls)]
        cache = "1h" if any(messages.kept(body) == "1h" for body in bodies) else "5m"
        return costs.estimate(self.model, apart, cache=cache, batch=batch)

    def _exact(self, body: Mapping[str, Any], call: costs.Call) -> costs.Call:
        tokens = self._exact_tokens(body)
        if tokens is None:
            return call
        beginning = min(call.prefix_tokens, tokens)
        return dataclasses.replace(call, prefix_tokens=beginning, tokens=tokens - beginning)

    @contextlib.contextmanager
    def _settled(self, body: Mapping[str, Any], reserved: float) -> Iterator[dict[str, Any]]:
        """Settle a reservation by the response put into the yielded dict; by nothing where the server said no.

        A call that broke off, so that nobody knows whether it was billed, counts in full.
        """
        outcome: dict[str, Any] = {}
        actual = reserved
        try:
            yield outcome
            actual = messages.dollars(self.model, outcome)
        except messages.refusals() as error:
            if getattr(error, "status_code", 0) >= 400:  # 200: an error in the middle of a stream
                actual = 0.0
            raise self.failure(body, error) from error
        except messages.breakages() as error:
            raise self.failure(body, error) from error
        finally:
            budget.BUDGET.settle(reserved, actual)

    def failure(self, body: Mapping[str, Any], error: Exception) -> RuntimeError:
        """``messages.failure`` with this client's secrets kept out of it."""
        secrets = [self.client.api_key, self.client.auth_token]
        return messages.failure(self.name, recordings.first_words(body), error, [s for s in secrets if s])

    def estimate(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        batch: bool = False,
        limits: costs.Limits | None = None,
    ) -> costs.Estimate:
        """What ``prompts`` cost in order if every answer takes ``max_tokens``, without those already recorded.

        Sends nothing, and needs neither a key nor a mode.
        """
        bodies = [self.request(prompt, max_tokens, temperature, schema) for prompt in prompts]
        return self.estimate_requests(bodies, batch, limits)

    def estimate_requests(
        self, bodies: Sequence[dict[str, Any]], batch: bool = False, limits: costs.Limits | None = None
    ) -> costs.Estimate:
        """As ``estimate``, for bodies."""
        unpaid = {recordings.key(self.identity(body)): body for body in bodies}
        unpaid = {key: body for key, body in unpaid.items() if recordings.store().get(key) is None}
        calls = [messages.call(body, costs.token_estimate) for body in unpaid.values()]
        hour = any(messages.kept(body) == "1h" for body in unpaid.values())
        return costs.estimate(self.model, calls, cache="1h" if hour else "5m", batch=batch, limits=limits)

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` sent as a message of its own (see ``count_prompt_tokens``); 0 for no text."""
        return self.count_prompt_tokens(Prompt.of(text)) if text else 0

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of ``prompt`` by the API's counting endpoint, recorded; it is free.

        In mode *offline*, and where the server has no such endpoint, ``costs.token_bound``: never too few.
        """
        body = messages.request(self.price, prompt, 1, 0.0, None, self.effort)
        bound = messages.call(body, costs.token_bound).window - 1
        if settings.mode() == "offline":
            return bound
        identity = {"counted": True, **self.identity(body)}
        record = recordings.find(identity)
        if record is None:
            tokens = self._exact_tokens(body)
            counted = {"input_tokens": bound if tokens is None else tokens, "estimated": tokens is None}
            record = recordings.keep(recordings.key(identity), self.model, counted)
        return int(record["input_tokens"])

    def _exact_tokens(self, body: Mapping[str, Any]) -> int | None:
        try:
            return messages.count(self.client, body)
        except messages.refusals() + messages.breakages() as error:
            if getattr(error, "status_code", None) in (401, 403):
                raise self.failure(body, error) from error
            warnings.warn(f"{self.name} did not count tokens ({error}); an upper bound is used.", stacklevel=2)
            return None

    def _tell_uncached(self, body: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        used = response.get("usage") or {}
        counted = [used.get("cache_creation_input_tokens"), used.get("cache_read_input_tokens")]
        if self._told_uncached or not messages.kept(body) or counted != [0, 0]:
            return
        self._told_uncached = True
        least = self.price.min_cache_tokens
        warnings.warn(
            f"{self.name} cached nothing: beginnings under its minimum length "
            f"({f'{least:,} tokens' if least else 'unknown'}) are not cached, and are paid in full.",
            stacklevel=2,
        )
