"""Claude, or any server that speaks the Messages API: one paid call, recorded, inside the spending cap.

The Messages API: prompts as request bodies, responses as completions. Nothing here pays or records.
"""

import contextlib
import dataclasses
import functools
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_lab import settings
from rag_lab.llm import pricing, recordings, spending
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Block, Completion, Prompt, Usage

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
    ``max_tokens``. ``window`` (tokens) is for servers of your own. Without ``count_exactly``, prompts are counted by
    an upper bound, without a call. Raises ValueError for an unknown model.
    """

    paid = enforces_schema = True
    needs_prefill = False
    dtype = ""

    def __init__(
        self,
        model: str = ANSWER_MODEL,
        client: "anthropic.Anthropic | None" = None,
        effort: str = "low",
        thinking_tokens: int = 1024,
        window: int | None = None,
        count_exactly: bool = True,
    ) -> None:
        self.price = pricing.price(model)
        self.model = model
        self.window = window or self.price.window
        self.effort = effort
        self.count_exactly = count_exactly
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

    @property
    def identity(self) -> str:
        """The same as ``name``."""
        return self.name

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
        self,
        prompt: Prompt,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The body of the request for ``prompt``. Raises ValueError for what the model does not take."""
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; it must be 1 or more.")
        return request(self.price, prompt, max_tokens + self.thinking_tokens, temperature, schema, self.effort, stop)

    def request_identity(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a response to ``body`` is recorded under: the body, and a server that is not Anthropic's."""
        return {**body, "model": self.model} | ({"server": self._server} if self._server else {})

    def complete(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """The answer to ``prompt``, its beginning included; with ``schema`` (JSON schema) JSON of that form.

        A temperature is sent only to models that take one. Raises ValueError before sending for a prompt that
        does not fit the window or the model, OverBudget where it could pass the cap, CallFailed where the call
        failed, and RuntimeError or LookupError as ``recordings.find`` does.
        """
        body = self.request(prompt, max_tokens, temperature, schema, stop)
        return completion(body, self.send(body))

    def send(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send one Messages body, or find its recording: ``{model, date, response, seconds, dollars}``.

        For requests that ``complete`` does not make, such as documents with citations. Raises as ``complete``.
        """
        identity = self.request_identity(body)
        with self._locks.setdefault(recordings.key(identity), threading.Lock()):
            record = recordings.find(identity)
            if record is None:
                client = self.client
                with self._paid(body) as reserved:
                    started = time.perf_counter()
                    with self._settled(body, reserved) as outcome:
                        outcome.update(send(client, body))
                    record = self._keep(body, outcome, time.perf_counter() - started)
        return record

    def stream(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Generator[str, None, Completion]:
        """As ``complete``, in pieces: yields text deltas and returns the Completion; a recording is one delta.

        A stream that breaks raises CallFailed after the deltas that had come; nothing of it is recorded.
        """
        body = self.request(prompt, max_tokens, temperature, schema, stop)
        record = recordings.find(self.request_identity(body))
        if record is not None:
            finished = completion(body, record)
            if finished.text:
                yield finished.text
            return finished
        client = self.client
        with self._paid(body) as reserved:
            started = time.perf_counter()
            with self._settled(body, reserved) as outcome:
                yield from filter(None, [beginning(body)])
                yield from stream(client, body, outcome)
            record = self._keep(body, outcome, time.perf_counter() - started)
        return completion(body, record)

    def complete_many(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
        at_once: int = 4,
    ) -> list[Completion | CallFailed]:
        """``complete`` for each prompt, ``at_once`` at a time; see ``complete_groups``."""
        outcomes = self.complete_groups(
            [[prompt] for prompt in prompts], max_tokens, temperature, schema, stop, at_once
        )
        return [outcome for (outcome,) in outcomes]

    def complete_groups(
        self,
        groups: Sequence[Sequence[Prompt]],
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
        at_once: int = 4,
    ) -> list[list[Completion | CallFailed]]:
        """Complete every prompt: ``at_once`` groups at a time, and within a group one call after the other.

        Put prompts that share a cached prefix (one document's chunks) in one group: its first call writes the cache
        that the others read, while parallel first calls would each pay for a write. A call that fails leaves a
        CallFailed in its place. An error that every call would meet (the cap, a refused key, a prompt that is too
        long) ends the run; paid responses are recorded, so a second run requests only the rest.
        """
        prompts = [prompt for group in groups for prompt in group]
        ended = threading.Event()

        def run(group: Sequence[Prompt]) -> list[Completion | CallFailed]:
            outcomes: list[Completion | CallFailed] = []
            for prompt in group:
                if ended.is_set():
                    break
                try:
                    outcomes.append(self.complete(prompt, max_tokens, temperature, schema, stop))
                except CallFailed as failure:
                    outcomes.append(failure)
                except BaseException:
                    ended.set()
                    raise
            return outcomes

        estimate = self.estimate(prompts, max_tokens, temperature, schema)
        with spending.paid_work(estimate), ThreadPoolExecutor(max_workers=at_once) as pool:
            futures = [pool.submit(run, group) for group in groups]
            try:
                return [future.result() for future in futures]
            finally:
                ended.set()  # after an interruption too

    def _keep(self, body: Mapping[str, Any], response: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        self._tell_uncached(body, response)
        key = recordings.key(self.request_identity(body))
        return recordings.keep(key, self.model, record(self.model, response, seconds))

    @contextlib.contextmanager
    def _paid(self, body: dict[str, Any]) -> Iterator[float]:
        """Print the estimate, refuse what does not fit, and yield the dollars set aside for the worst case."""
        with spending.paid_work(self.estimate_requests([body])):
            yield self.reserve([body]).dollars

    def reserve(self, bodies: Sequence[dict[str, Any]], batch: bool = False) -> pricing.Estimate:
        """Set the worst case of unpaid requests aside in the ledger: nothing read from a cache, all output used.

        Tokens are bounded offline; only where the bound would pass the window or the cap is the API asked.
        Raises ValueError for a prompt that does not fit the window and OverBudget at the cap.
        """
        calls = [priced_call(body, pricing.token_bound) for body in bodies]
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
            spending.BUDGET.reserve(worst.dollars, what)
        except spending.OverBudget:
            exact = [self._exact(body, call) for body, call in zip(bodies, calls, strict=True)]
            worst = self._worst(bodies, exact, batch)
            spending.BUDGET.reserve(worst.dollars, what)
        return worst

    def _worst(
        self, bodies: Sequence[dict[str, Any]], calls: Sequence[pricing.Call], batch: bool
    ) -> pricing.Estimate:
        apart = [dataclasses.replace(call, prefix=call.prefix and str(n)) for n, call in enumerate(calls)]
        cache = "1h" if any(kept(body) == "1h" for body in bodies) else "5m"
        return pricing.estimate(self.model, apart, cache=cache, batch=batch)

    def _exact(self, body: Mapping[str, Any], call: pricing.Call) -> pricing.Call:
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
            actual = dollars(self.model, outcome)
        except refusals() as error:
            if getattr(error, "status_code", 0) >= 400:  # 200: an error in the middle of a stream
                actual = 0.0
            raise self.failure(body, error) from error
        except breakages() as error:
            raise self.failure(body, error) from error
        finally:
            spending.BUDGET.settle(reserved, actual)

    def failure(self, body: Mapping[str, Any], error: Exception) -> RuntimeError:
        """``messages.failure`` with this client's secrets kept out of it."""
        secrets = [self.client.api_key, self.client.auth_token]
        return failure(self.name, recordings.first_words(body), error, [s for s in secrets if s])

    def estimate(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        batch: bool = False,
        limits: pricing.Limits | None = None,
    ) -> pricing.Estimate:
        """What ``prompts`` cost in order if every answer takes ``max_tokens``, without those already recorded.

        Sends nothing, and needs neither a key nor a mode.
        """
        bodies = [self.request(prompt, max_tokens, temperature, schema) for prompt in prompts]
        return self.estimate_requests(bodies, batch, limits)

    def estimate_requests(
        self, bodies: Sequence[dict[str, Any]], batch: bool = False, limits: pricing.Limits | None = None
    ) -> pricing.Estimate:
        """As ``estimate``, for bodies."""
        unpaid = {recordings.key(self.request_identity(body)): body for body in bodies}
        unpaid = {key: body for key, body in unpaid.items() if recordings.store().get(key) is None}
        calls = [priced_call(body, pricing.token_estimate) for body in unpaid.values()]
        hour = any(kept(body) == "1h" for body in unpaid.values())
        return pricing.estimate(self.model, calls, cache="1h" if hour else "5m", batch=batch, limits=limits)

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` sent as a message of its own (see ``count_prompt_tokens``); 0 for no text."""
        return self.count_prompt_tokens(Prompt.of(text)) if text else 0

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of ``prompt`` by the API's counting endpoint, recorded; it is free.

        In mode *offline*, without ``count_exactly``, and where the server has no such endpoint,
        ``costs.token_bound``: never too few.
        """
        body = request(self.price, prompt, 1, 0.0, None, self.effort)
        bound = priced_call(body, pricing.token_bound).window - 1
        if settings.mode() == "offline" or not self.count_exactly:
            return bound
        identity = {"counted": True, **self.request_identity(body)}
        record = recordings.find(identity)
        if record is None:
            tokens = self._exact_tokens(body)
            counted = {"input_tokens": bound if tokens is None else tokens, "estimated": tokens is None}
            record = recordings.keep(recordings.key(identity), self.model, counted)
        return int(record["input_tokens"])

    def _exact_tokens(self, body: Mapping[str, Any]) -> int | None:
        try:
            return count(self.client, body)
        except refusals() + breakages() as error:
            if getattr(error, "status_code", None) in (401, 403):
                raise self.failure(body, error) from error
            warnings.warn(f"{self.name} did not count tokens ({error}); an upper bound is used.", stacklevel=2)
            return None

    def _tell_uncached(self, body: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        used = response.get("usage") or {}
        counted = [used.get("cache_creation_input_tokens"), used.get("cache_read_input_tokens")]
        if self._told_uncached or not kept(body) or counted != [0, 0]:
            return
        self._told_uncached = True
        least = self.price.min_cache_tokens
        warnings.warn(
            f"{self.name} cached nothing: beginnings under its minimum length "
            f"({f'{least:,} tokens' if least else 'unknown'}) are not cached, and are paid in full.",
            stacklevel=2,
        )


if TYPE_CHECKING:
    import anthropic

MAX_CACHE_MARKS = 4  # of the API


def request(
    price: pricing.Price,
    prompt: Prompt,
    max_tokens: int,
    temperature: float,
    schema: Mapping[str, Any] | None,
    effort: str,
    stop: Sequence[str] = (),
) -> dict[str, Any]:
    """The body that asks ``price.model`` to complete ``prompt``; the same prompt gives the same body.

    White space at the end of a beginning (a last turn by the assistant) is left out: the API refuses it. Raises
    ValueError for a prompt with no text, a beginning or a temperature that the model does not take, or more than
    four cache marks.
    """
    if not prompt.turns or not prompt.turns[-1].text.strip():
        raise ValueError("The prompt has no text in its last turn; give it some.")
    if prompt.turns[-1].role == "assistant" and not price.prefill:
        raise ValueError(
            f"{price.model} does not take a beginning of its answer (a last turn by the assistant); end the prompt "
            "with the user's turn, or use a model that does (claude-haiku-4-5, a local model)."
        )
    if temperature and not price.temperature:
        raise ValueError(f"{price.model} takes no temperature, and {temperature} was asked for; leave it at 0.")
    if any(not text.strip() for text in stop):
        raise ValueError(f"A stop text of {list(stop)} is blank; the Messages API refuses that.")
    turns = [{"role": turn.role, "content": _blocks(turn.blocks)} for turn in prompt.turns]
    if prompt.turns[-1].role == "assistant":
        turns[-1]["content"] = [{"type": "text", "text": prompt.turns[-1].text.rstrip()}]
    body: dict[str, Any] = {
        "model": price.model.removeprefix("local/"),
        "max_tokens": max_tokens,
        "messages": turns,
    }
    if system := _blocks(prompt.system):
        body["system"] = system
    if stop:
        body["stop_sequences"] = list(stop)
    if price.temperature:
        body["temperature"] = temperature
    if price.thinking == "always":
        body["output_config"] = {"effort": effort}
    elif price.thinking:
        body["thinking"] = {"type": price.thinking}
    if schema is not None:
        import anthropic

        form = anthropic.transform_schema(dict(schema))
        body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": form}
    if (marks := sum("cache_control" in block for block in all_blocks(body))) > MAX_CACHE_MARKS:
        raise ValueError(f"The prompt has {marks} cache marks; the API takes {MAX_CACHE_MARKS}.")
    return body


def _blocks(blocks: tuple[Block, ...]) -> list[dict[str, Any]]:
    """Empty blocks are left out: the API refuses them."""
    marks = {"": {}, "5m": {"type": "ephemeral", "ttl": "5m"}, "1h": {"type": "ephemeral", "ttl": "1h"}}
    return [
        {"type": "text", "text": block.text} | ({"cache_control": marks[block.cache]} if block.cache else {})
        for block in blocks
        if block.text
    ]


def all_blocks(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every content block of a body, the system's first. String content counts as one block."""
    parts = [body.get("system", []), *(message["content"] for message in body["messages"])]
    return [
        block for part in parts for block in ([{"type": "text", "text": part}] if isinstance(part, str) else part)
    ]


def _strings(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


def priced_call(body: Mapping[str, Any], count_tokens: Callable[[str], int]) -> pricing.Call:
    """The tokens of a request by an offline count, with all of ``max_tokens`` written.

    Its beginning, up to the last block marked for the cache, is the prefix.
    """
    blocks = all_blocks(body)
    texts = ["\n".join(_strings(block)) for block in blocks]
    counts = [count_tokens(text) for text in texts]
    marked = max((number for number, block in enumerate(blocks, 1) if block.get("cache_control")), default=0)
    rest = sum(counts[marked:]) + pricing.MESSAGE_TOKENS * (len(body["messages"]) + ("system" in body))
    if form := (body.get("output_config") or {}).get("format"):
        rest += count_tokens(json.dumps(form))
    return pricing.Call(rest, body["max_tokens"], "\x00".join(texts[:marked]), sum(counts[:marked]))


def kept(body: Mapping[str, Any]) -> str:
    """How long a body asks the cache to keep a beginning (the longest, ``1h`` or ``5m``); "" for not at all."""
    marks = {
        (block.get("cache_control") or {}).get("ttl", "5m") for block in all_blocks(body) if "cache_control" in block
    }
    return "1h" if "1h" in marks else "5m" if marks else ""


def _send(client: "anthropic.Anthropic", body: Mapping[str, Any], stream: bool = False) -> Any:
    """Fields that the SDK's methods no longer take (temperature, since 1.0) still reach servers that take them."""
    rest = {name: value for name, value in body.items() if name not in ("model", "max_tokens", "messages")}
    return client.messages.create(
        model=body["model"],
        max_tokens=body["max_tokens"],
        messages=body["messages"],
        stream=stream,
        extra_body=rest,
        timeout=client.timeout,  # the SDK's own would refuse a long answer that is not streamed
    )


def send(client: "anthropic.Anthropic", body: Mapping[str, Any]) -> dict[str, Any]:
    """The response to ``body`` as JSON. Raises one of ``refusals()`` or ``breakages()``."""
    message = _send(client, body)
    if isinstance(message, str) or getattr(message, "content", None) is None:
        raise ValueError("the response is not a message")
    return message.to_dict(mode="json")


def stream(
    client: "anthropic.Anthropic", body: Mapping[str, Any], response: dict[str, Any]
) -> Generator[str, None, None]:
    """Yield text deltas and fill ``response`` in the form of ``send``; raises as it does.

    A stream that ends without a stop reason was cut off: ValueError.
    """
    texts: list[str] = []
    usage: dict[str, Any] = {}
    stop_reason = None
    with _send(client, body, stream=True) as events:
        for event in events:
            if event.type == "message_start":
                usage.update(_present(getattr(event.message, "usage", None)))
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                texts.append(event.delta.text)
                yield event.delta.text
            elif event.type == "message_delta":
                stop_reason = getattr(event.delta, "stop_reason", None) or stop_reason
                usage.update(_present(getattr(event, "usage", None)))
            elif event.type == "message_stop":
                stop_reason = stop_reason or "end_turn"
    if stop_reason is None:
        raise ValueError("the stream ended before the message did")
    content = [{"type": "text", "text": "".join(texts)}]
    response.update({"content": content, "stop_reason": stop_reason, "usage": usage})


def _present(usage: Any) -> dict[str, Any]:
    fields = usage.to_dict(mode="json") if usage is not None else {}
    return {name: value for name, value in fields.items() if value is not None}


def count(client: "anthropic.Anthropic", body: Mapping[str, Any]) -> int:
    """Prompt tokens of ``body`` by the counting endpoint, which is free."""
    rest = {name: body[name] for name in ("system", "output_config", "thinking") if name in body}
    counted = client.messages.count_tokens(model=body["model"], messages=body["messages"], extra_body=rest)
    if not isinstance(tokens := getattr(counted, "input_tokens", None), int):
        raise ValueError("the response holds no count")
    return tokens


def refusals() -> tuple[type[Exception], ...]:
    """Errors that a server answers with."""
    import anthropic

    return (anthropic.APIStatusError,)


def breakages() -> tuple[type[Exception], ...]:
    """Errors after which nobody knows whether the work was billed: lost connections, unreadable responses."""
    import anthropic
    import httpx2

    return (anthropic.AnthropicError, httpx2.HTTPError, ValueError)


def failure(name: str, start: str, error: Exception, secrets: Sequence[str]) -> RuntimeError:
    """``error`` as CallFailed, without ``secrets``; as plain RuntimeError where every further call would fail too."""
    status = getattr(error, "status_code", None)
    reason = f"{status} {error}" if status else f"{type(error).__name__}: {error}"
    for secret in secrets:
        reason = reason.replace(secret, "[key]")
    if status in (401, 403, 404):
        return RuntimeError(f"{name} cannot be called: {reason}. Check ANTHROPIC_API_KEY and the model.")
    return CallFailed(f"{name}, request beginning {start!r}: {reason}")


def token_counts(response: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts of a response as ``costs.dollars`` takes them; what a server leaves out counts as 0."""
    used = response.get("usage") or {}
    written = used.get("cache_creation_input_tokens") or 0
    hour = (used.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return {
        "input_tokens": used.get("input_tokens") or 0,
        "cache_read": used.get("cache_read_input_tokens") or 0,
        "output": used.get("output_tokens") or 0,
        "cache_write": {"5m": max(written - hour, 0), "1h": hour},
    }


def dollars(model: str, response: Mapping[str, Any], batch: bool = False) -> float:
    """What a response cost, in US dollars."""
    return pricing.dollars(model, **token_counts(response), batch=batch)


def record(model: str, response: Mapping[str, Any], seconds: float, batch: bool = False) -> dict[str, Any]:
    """What is recorded of a response: itself, how long it took and what it cost."""
    return {"response": dict(response), "seconds": seconds, "dollars": dollars(model, response, batch)}


def beginning(body: Mapping[str, Any]) -> str:
    """The beginning of the answer that a body ends in; "" where it ends in the user's turn."""
    last = body["messages"][-1]
    return last["content"][-1]["text"] if last["role"] == "assistant" else ""


def completion(body: Mapping[str, Any], record: Mapping[str, Any]) -> Completion:
    """The Completion in a recorded response: the beginning and the text blocks joined (thinking is left out).

    A full window counts as ``max_tokens``; a stop reason that a server leaves out as ``end_turn``.
    """
    response = record["response"]
    counts = token_counts(response)
    text = "".join(block.get("text") or "" for block in response["content"] if block.get("type", "text") == "text")
    text = beginning(body) + text
    reason = response.get("stop_reason") or "end_turn"
    usage = Usage(
        counts["input_tokens"],
        sum(counts["cache_write"].values()),
        counts["cache_read"],
        counts["output"],
        record["seconds"],
        record["dollars"],
    )
    return Completion(text, usage, "max_tokens" if reason == "model_context_window_exceeded" else reason)
