"""Claude, or any server that speaks the Messages API: paid calls, recorded, and kept under the spending cap."""

import contextlib
import dataclasses
import functools
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import urlsplit

from rag_lab import settings
from rag_lab.llm import pricing, recordings, spending
from rag_lab.llm.language_model import CallFailed, Sampling, Schema
from rag_lab.llm.prompt import Block, Completion, Prompt, Stream, Turn, Usage
from rag_lab.storage import content_key
from rag_lab.text.thinking import split_thinking

if TYPE_CHECKING:
    import anthropic

ANSWER_MODEL = "claude-opus-5-5"
CONTEXT_MODEL = "claude-haiku-5-5"
RETRIES = 4  # by the SDK, which respects retry-after
THINKING_TOKENS = 1024
MAX_CACHE_MARKS = 4  # the API's limit


class ClaudeLLM:
    """A model behind the Messages API: a ``LanguageModel``.

    Calls are made only in mode *live* and are recorded under everything that shaped them, so no call is made twice: a
    recorded request is answered from disk at no cost, and its ``usage`` is that of the first time. Thinking is
    switched off if the model allows it; a model that always thinks gets ``THINKING_TOKENS`` on top of ``max_tokens``.

    ``window`` (tokens) is for servers of your own; so is setting ``client`` to an ``anthropic.Anthropic``. Without
    ``count_exactly``, prompt tokens are an upper bound that needs no call. Raises ValueError if the model is unknown.
    """

    paid = enforces_schema = True
    needs_prefill = False
    dtype = ""

    def __init__(self, model: str = ANSWER_MODEL, window: int | None = None, count_exactly: bool = True) -> None:
        self.price = pricing.price(model)
        self.model = model
        self.window = window or self.price.window
        self.count_exactly = count_exactly
        self.thinking_tokens = THINKING_TOKENS if self.price.thinking == "always" else 0
        self._locks: dict[str, threading.Lock] = {}
        self._warned_uncached = False

    def __repr__(self) -> str:
        return f"ClaudeLLM({self.name!r})"

    @property
    def name(self) -> str:
        """The model, and the server if it is not Anthropic's, so that no other model is shown as Claude."""
        return f"{self.model}@{self._server}" if self._server else self.model

    identity = name

    @functools.cached_property
    def client(self) -> "anthropic.Anthropic":
        """The SDK's client, from ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL.

        Raises RuntimeError if there is no key, and ValueError if it has characters that no key has.
        """
        import anthropic

        key, token = _secret("ANTHROPIC_API_KEY"), _secret("ANTHROPIC_AUTH_TOKEN")
        if not (key or token or os.environ.get("ANTHROPIC_BASE_URL")):
            raise RuntimeError(
                f"No key for {self.model}: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a server of your own."
            )
        stand_in = None if token else "no key"
        return anthropic.Anthropic(api_key=key or stand_in, auth_token=token or None, max_retries=RETRIES)

    @property
    def _server(self) -> str:
        client = self.__dict__.get("client")
        url = urlsplit(str(client.base_url) if client else os.environ.get("ANTHROPIC_BASE_URL", ""))
        host = url.hostname or ""
        if not host or host == "anthropic.com" or host.endswith(".anthropic.com"):
            return ""
        # Without user and password; with port and path, since one host may have several servers.
        return host + (f":{url.port}" if url.port else "") + url.path.rstrip("/")

    def request(
        self,
        prompt: Prompt,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Schema = None,
        stop: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The body of the request for ``prompt``; the same prompt gives the same body.

        What the API refuses is left out: blank turns and blocks, and white space at the end of a prefill. Raises
        ValueError if the last turn has no text, the first is the assistant's, ``max_tokens`` is under 1, the
        temperature is not in [0, 1], a stop text is blank, there are more than four cache marks or a 1h mark after a
        5m mark, or the model takes no prefill or temperature.
        """
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; it must be 1 or more.")
        last = prompt.turns[-1] if prompt.turns else Turn("user", ())
        if not last.text.strip():
            raise ValueError("The prompt has no text in its last turn; give it some.")
        if last.role == "assistant" and not self.price.prefill:
            raise ValueError(
                f"{self.model} takes no prefill (a last turn by the assistant): end the prompt with the user's turn, "
                "or use a model that does (claude-haiku-4-5, a local model)."
            )
        if temperature and not self.price.temperature:
            raise ValueError(f"{self.model} takes no temperature, and it is {temperature}; leave it at 0.")
        if not 0 <= temperature <= 1:
            raise ValueError(f"The temperature is {temperature}; the Messages API takes 0 to 1.")
        if isinstance(stop, str) or any(not text.strip() for text in stop):
            raise ValueError(f"stop is {stop!r}; the Messages API takes a list of texts that are not blank.")
        turns = [{"role": turn.role, "content": _content(turn.blocks)} for turn in prompt.turns if turn.text.strip()]
        if turns[0]["role"] != "user":
            raise ValueError("The first turn is the assistant's; the Messages API takes the user's first.")
        if last.role == "assistant":
            turns[-1]["content"] = [{"type": "text", "text": last.text.rstrip()}]
        body: dict[str, Any] = {
            "model": self.model.removeprefix("local/"),
            "max_tokens": max_tokens + self.thinking_tokens,
            "messages": turns,
        }
        if system := _content(prompt.system):
            body["system"] = system
        if stop:
            body["stop_sequences"] = list(stop)
        if self.price.temperature:
            body["temperature"] = temperature
        if self.price.thinking == "always":
            body["output_config"] = {"effort": "low"}
        elif self.price.thinking:
            body["thinking"] = {"type": self.price.thinking}
        if schema is not None:
            import anthropic

            form = anthropic.transform_schema(dict(schema))
            body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": form}
        marks = [block["cache_control"]["ttl"] for block in _blocks(body) if "cache_control" in block]
        if len(marks) > MAX_CACHE_MARKS:
            raise ValueError(f"The prompt has {len(marks)} cache marks; the API takes {MAX_CACHE_MARKS}.")
        if marks != sorted(marks):  # 1h, 5m
            raise ValueError("A cache mark of 1h follows one of 5m; the API takes the longer ones first.")
        return body

    def request_identity(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a response to ``body`` is recorded under: the body, and the server if it is not Anthropic's."""
        return {**body, "model": self.model} | ({"server": self._server} if self._server else {})

    def complete(self, prompt: Prompt, max_tokens: int = 256, **sampling: Unpack[Sampling]) -> Completion:
        """The answer to ``prompt``, its prefill included; with a ``schema`` (JSON schema) it is JSON that follows it.

        Raises ValueError before sending if the prompt does not fit the window or the model, OverBudget if the call
        could pass the cap, CallFailed if the call failed, RuntimeError if every call would fail (a refused key), and
        RuntimeError or LookupError as ``recordings.find`` does.
        """
        body = self.request(prompt, max_tokens, **sampling)
        answer = completion(body, self.send(body), echoes=bool(self._server))
        if sampling.get("schema") is not None and self._server and not _is_json(answer.text):
            warnings.warn(f"{self.name} did not answer with JSON: it may not hold to schemas.", stacklevel=2)
        return answer

    def send(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send one Messages body, or find its recording: ``{model, date, response, seconds, dollars}``.

        For requests that ``complete`` does not make, such as documents with citations. Raises as ``complete`` does.
        """
        identity = self.request_identity(body)
        with self._locks.setdefault(content_key(identity), threading.Lock()):
            if record := recordings.find(identity):
                return record
            client = self.client
            with self.spending_on([body]) as call:
                message = _create(client, body)
                if isinstance(message, str) or getattr(message, "content", None) is None:
                    raise ValueError("the response is not a message")
                return self._keep(body, message.to_dict(mode="json"), call)

    def stream(self, prompt: Prompt, max_tokens: int = 256, **sampling: Unpack[Sampling]) -> Stream:
        """``complete`` in pieces: yields text deltas and returns the Completion; a recording is one delta.

        A stream that breaks off raises CallFailed after the deltas that arrived; nothing of it is recorded.
        """
        body = self.request(prompt, max_tokens, **sampling)
        echoes = bool(self._server)
        if record := recordings.find(self.request_identity(body)):
            yield from filter(None, [completion(body, record, echoes).text])
            return completion(body, record, echoes)
        client = self.client
        with self.spending_on([body]) as call:
            response = yield from _stream(client, body, _prefill(body), echoes)
            record = self._keep(body, response, call)
        return completion(body, record, echoes)

    def complete_many(
        self, prompts: Sequence[Prompt], max_tokens: int = 256, **sampling: Unpack[Sampling]
    ) -> list[Completion | CallFailed]:
        """``complete`` for each prompt, several at a time; see ``complete_groups``."""
        outcomes = self.complete_groups([[prompt] for prompt in prompts], max_tokens, **sampling)
        return [outcome for (outcome,) in outcomes]

    def complete_groups(
        self,
        groups: Sequence[Sequence[Prompt]],
        max_tokens: int = 256,
        at_once: int = 4,
        **sampling: Unpack[Sampling],
    ) -> list[list[Completion | CallFailed]]:
        """Complete every prompt: ``at_once`` groups at a time, and within a group one call after the other.

        Put prompts that share a cached prefix (one document's chunks) in one group: its first call writes the cache
        that the others read, while parallel first calls would each pay for a write. A call that fails leaves a
        CallFailed in its place. An error that every call would meet (the cap, a refused key, a prompt that is too
        long) ends the run; paid responses are recorded, so a second run requests only the rest.
        """
        ended = threading.Event()

        def run(group: Sequence[Prompt]) -> list[Completion | CallFailed]:
            outcomes: list[Completion | CallFailed] = []
            for prompt in group:
                if ended.is_set():
                    break
                try:
                    outcomes.append(self.complete(prompt, max_tokens, **sampling))
                except CallFailed as failure:
                    outcomes.append(failure)
                except BaseException:
                    ended.set()
                    raise
            return outcomes

        estimate = self.estimate([prompt for group in groups for prompt in group], max_tokens, **sampling)
        with spending.paid_work(estimate), ThreadPoolExecutor(max_workers=at_once) as pool:
            futures = [pool.submit(run, group) for group in groups]
            try:
                return [future.result() for future in futures]
            finally:
                ended.set()  # after an interruption too

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` sent as a message of its own (see ``count_prompt_tokens``); 0 for an empty text."""
        return self.count_prompt_tokens(Prompt.of(text)) if text else 0

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of ``prompt`` by the API's counting endpoint, which is free; the count is recorded.

        It is ``pricing.token_bound``, which is never too few, in mode *offline*, without ``count_exactly``, and if
        the server has no such endpoint.
        """
        body = self.request(prompt, 1) | {"max_tokens": 1}
        bound = priced_call(body, pricing.token_bound).window - 1
        if settings.mode() == "offline" or not self.count_exactly:
            return bound
        identity = {"counted": True, **self.request_identity(body)}
        record = recordings.find(identity)
        if record is None:
            tokens = self._exact_tokens(body)
            counted = {"input_tokens": bound if tokens is None else tokens, "estimated": tokens is None}
            record = recordings.keep(content_key(identity), self.model, counted)
        return int(record["input_tokens"])

    def _exact_tokens(self, body: Mapping[str, Any]) -> int | None:
        """Prompt tokens by the counting endpoint; None, with a warning, if it does not answer."""
        rest = {name: body[name] for name in ("system", "output_config", "thinking") if name in body}
        try:
            counted = self.client.messages.count_tokens(
                model=body["model"], messages=body["messages"], extra_body=rest
            )
            if not isinstance(tokens := getattr(counted, "input_tokens", None), int):
                raise ValueError("the response holds no count")
            return tokens
        except api_errors() as error:
            if getattr(error, "status_code", None) in (401, 403):
                raise self._failure(body, error) from None
            warnings.warn(
                f"{self.name} did not count tokens ({self.reason(error)}); an upper bound is used.", stacklevel=2
            )
            return None

    def estimate(
        self, prompts: Sequence[Prompt], max_tokens: int = 256, batch: bool = False, **sampling: Unpack[Sampling]
    ) -> pricing.Estimate:
        """What ``prompts`` cost, in order, if every answer takes ``max_tokens``; recorded ones cost nothing.

        Nothing is sent, and neither a key nor a mode is needed.
        """
        return self.estimate_requests([self.request(prompt, max_tokens, **sampling) for prompt in prompts], batch)

    def estimate_requests(self, bodies: Sequence[dict[str, Any]], batch: bool = False) -> pricing.Estimate:
        """``estimate`` for request bodies."""
        unpaid = {content_key(self.request_identity(body)): body for body in bodies}
        unpaid = {key: body for key, body in unpaid.items() if recordings.store().get(key) is None}
        calls = [priced_call(body, pricing.token_estimate) for body in unpaid.values()]
        return pricing.estimate(self.model, calls, cache=_longest_ttl(unpaid.values()), batch=batch)

    @contextlib.contextmanager
    def spending_on(self, bodies: Sequence[dict[str, Any]], batch: bool = False) -> Iterator[dict[str, Any]]:
        """Print the estimate, reserve the worst case, and afterwards settle the ``dollars`` of the yielded dict.

        The server's errors become CallFailed or RuntimeError. A call without ``dollars`` counts as 0 if the server
        refused it, else in full, because it may have been billed. Raises ValueError if a prompt does not fit the
        window, and OverBudget at the cap.
        """
        with spending.paid_work(self.estimate_requests(bodies, batch)):
            call: dict[str, Any] = {"reserved": self._reserve(bodies, batch), "started": time.perf_counter()}
            unknown = call["reserved"]
            try:
                yield call
            except api_errors() as error:
                if getattr(error, "status_code", 0) >= 400 or _was_not_sent(error):  # 200: an error within a stream
                    unknown = 0.0
                raise self._failure(bodies[0], error) from None  # the cause may hold the key
            finally:
                spending.BUDGET.settle(call["reserved"], call.get("dollars", unknown))

    def _reserve(self, bodies: Sequence[dict[str, Any]], batch: bool) -> float:
        """Reserve the dollars of the worst case: nothing is read from a cache and all of ``max_tokens`` is written.

        Tokens are bounded offline; the API counts them only if the bound would pass the window or the cap.
        """

        def worst() -> float:
            unshared = [dataclasses.replace(call, prefix=call.prefix and str(n)) for n, call in enumerate(calls)]
            return pricing.estimate(self.model, unshared, cache=_longest_ttl(bodies), batch=batch).dollars

        calls = [priced_call(body, pricing.token_bound) for body in bodies]
        if any(call.window > self.window for call in calls) or worst() > spending.BUDGET.left():
            for number, body in enumerate(bodies):
                if (tokens := self._exact_tokens(body)) is not None:
                    prefix = min(calls[number].prefix_tokens, tokens)
                    calls[number] = dataclasses.replace(calls[number], prefix_tokens=prefix, tokens=tokens - prefix)
        longest = max(calls, key=lambda call: call.window)
        if longest.window > self.window:
            raise ValueError(
                f"The prompt has {longest.window - longest.output_tokens:,} tokens and its answer may take "
                f"{longest.output_tokens:,}; the window of {self.name} is {self.window:,}. Shorten the prompt."
            )
        what = f"{len(bodies):,} request(s) to {self.name}, the first {recordings.first_words(bodies[0])!r}"
        spending.BUDGET.reserve(amount := worst(), what)
        return amount

    def reason(self, error: Exception) -> str:
        """What ``error`` says, with its status and without secrets."""
        status = getattr(error, "status_code", None)
        text = f"{status} {error}" if status else f"{type(error).__name__}: {error}"
        for secret in filter(None, (self.client.api_key, self.client.auth_token)):
            text = text.replace(secret, "[key]")
        return text

    def _failure(self, body: Mapping[str, Any], error: Exception) -> RuntimeError:
        """``error`` as CallFailed, or as plain RuntimeError if every further call would fail too."""
        if getattr(error, "status_code", None) in (401, 403, 404):
            return RuntimeError(
                f"{self.name} cannot be called: {self.reason(error)}. Check the key, the model, and that the server "
                "has what was called (Message Batches, for example)."
            )
        if _was_not_sent(error):
            return RuntimeError(
                f"{self.name} cannot be reached: {self.reason(error)}. Check the network and the URL."
            )
        return CallFailed(f"{self.name}, request {recordings.first_words(body)!r}: {self.reason(error)}")

    def _keep(self, body: Mapping[str, Any], response: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
        """Record a response with its seconds and dollars."""
        call["dollars"] = response_dollars(self.model, response)
        used = response.get("usage") or {}
        counted = [used.get("cache_creation_input_tokens"), used.get("cache_read_input_tokens")]
        marked = any("cache_control" in block for block in _blocks(body))
        if marked and counted == [0, 0] and not self._warned_uncached:
            self._warned_uncached = True
            least = f"{self.price.min_cache_tokens:,} tokens" if self.price.min_cache_tokens else "unknown"
            reason = f"a prefix under its minimum length ({least}) is paid in full"
            warnings.warn(f"{self.name} cached nothing: {reason}.", stacklevel=2)
        record = {"response": response, "seconds": time.perf_counter() - call["started"], "dollars": call["dollars"]}
        return recordings.keep(content_key(self.request_identity(body)), self.model, record)


def _secret(name: str) -> str:
    """A key from the environment, without white space around it. Its characters are in no message."""
    value = os.environ.get(name, "")
    key = value.strip()
    if wrong := next((i for i, c in enumerate(key, 1) if not "!" <= c <= "~"), 0):
        raise ValueError(f"{name} has a character that no key has, at place {wrong}: copy the key again.")
    if key != value:
        warnings.warn(f"{name} has white space or a line end around the key, which is left out.", stacklevel=3)
    return key


def _was_not_sent(error: BaseException) -> bool:
    """Whether a call failed before anything of it reached a server."""
    import httpx2

    unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
    return isinstance(error, unsent) or isinstance(error.__cause__, unsent)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _content(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """Content blocks of a body. The API refuses blank ones: their white space goes to the block before them."""
    found: list[Block] = []
    for block in blocks:
        if block.text.strip():
            found.append(block)
        elif found:
            found[-1] = Block(found[-1].text + block.text, block.cache or found[-1].cache)
    return [
        {"type": "text", "text": block.text}
        | ({"cache_control": {"type": "ephemeral", "ttl": block.cache}} if block.cache else {})
        for block in found
    ]


def _blocks(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every content block of a body, the system's first."""
    parts = [body.get("system", []), *(message["content"] for message in body["messages"])]
    return [block for part in parts for block in part]


def _strings(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


def priced_call(body: Mapping[str, Any], count_tokens: Callable[[str], int]) -> pricing.Call:
    """The tokens of a request by an offline count. Its prefix ends with the last block that has a cache mark."""
    blocks = _blocks(body)
    texts = ["\n".join(_strings(block)) for block in blocks]
    counts = [count_tokens(text) for text in texts]
    marked = max((number for number, block in enumerate(blocks, 1) if block.get("cache_control")), default=0)
    rest = sum(counts[marked:]) + pricing.MESSAGE_TOKENS * (len(body["messages"]) + ("system" in body))
    if form := (body.get("output_config") or {}).get("format"):
        rest += count_tokens(json.dumps(form))
    return pricing.Call(rest, body["max_tokens"], "\x00".join(texts[:marked]), sum(counts[:marked]))


def _longest_ttl(bodies: Iterable[dict[str, Any]]) -> str:
    """How long the caches of these requests last: ``1h`` if one of them says so, else ``5m``."""
    marks = [block.get("cache_control") or {} for body in bodies for block in _blocks(body)]
    return "1h" if any(mark.get("ttl") == "1h" for mark in marks) else "5m"


def _create(client: "anthropic.Anthropic", body: Mapping[str, Any], stream: bool = False) -> Any:
    return client.messages.create(
        model=body["model"],
        max_tokens=body["max_tokens"],
        messages=body["messages"],
        stream=stream,
        extra_body=body,  # with fields that the method no longer takes (temperature, since 1.0) but some servers do
        timeout=client.timeout,  # the SDK's own would refuse a long answer that is not streamed
    )


def _stream(
    client: "anthropic.Anthropic", body: Mapping[str, Any], prefill: str, echoes: bool
) -> Generator[str, None, dict[str, Any]]:
    """Yield ``prefill`` and the text deltas, and return the response.

    If the server ``echoes``, it may begin its text with the prefill, which is then yielded once. Raises ValueError if
    the stream ends without a stop reason.
    """
    texts: list[str] = []
    compared = not (prefill and echoes)
    yield from filter(None, [prefill])
    usage: dict[str, Any] = {}
    stop_reason = None
    with _create(client, body, stream=True) as events:
        for event in events:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                texts.append(event.delta.text)
                if compared:
                    yield event.delta.text
                elif len(text := "".join(texts)) >= len(prefill):
                    compared = True
                    yield from filter(None, [text.removeprefix(prefill)])
            elif event.type == "message_delta":
                stop_reason = event.delta.stop_reason or stop_reason
            elif event.type == "message_stop":
                stop_reason = stop_reason or "end_turn"
            if used := getattr(getattr(event, "message", event), "usage", None):  # of message_start, message_delta
                usage |= used.to_dict(mode="json", exclude_none=True)
    if not compared:
        yield "".join(texts)
    if stop_reason is None:
        raise ValueError("the stream ended before the message did")
    return {"content": [{"type": "text", "text": "".join(texts)}], "stop_reason": stop_reason, "usage": usage}


def api_errors() -> tuple[type[Exception], ...]:
    """Errors of a call: the server's (with a ``status_code``), lost connections, and unreadable responses."""
    import anthropic
    import httpx2

    return (anthropic.AnthropicError, httpx2.HTTPError, ValueError)


def _token_counts(response: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts of a response as ``pricing.dollars`` takes them; what a server leaves out counts as 0."""
    used = response.get("usage") or {}
    written = used.get("cache_creation_input_tokens") or 0
    hour = (used.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return {
        "input_tokens": used.get("input_tokens") or 0,
        "cache_read": used.get("cache_read_input_tokens") or 0,
        "output": used.get("output_tokens") or 0,
        "cache_write": {"5m": max(written - hour, 0), "1h": hour},
    }


def response_dollars(model: str, response: Mapping[str, Any], batch: bool = False) -> float:
    """What a response cost, in US dollars."""
    return pricing.dollars(model, **_token_counts(response), batch=batch)


def _prefill(body: Mapping[str, Any]) -> str:
    last = body["messages"][-1]
    return last["content"][-1]["text"] if last["role"] == "assistant" else ""


def completion(body: Mapping[str, Any], record: Mapping[str, Any], echoes: bool = False) -> Completion:
    """The Completion in a recorded response: the prefill and the text blocks joined, the thinking apart.

    ``echoes``: the server may repeat the prefill. A full window counts as ``max_tokens``; a missing stop reason as
    ``end_turn``.
    """
    response, prefill = record["response"], _prefill(body)
    written = "".join(block.get("text") or "" for block in response["content"] if block.get("type", "text") == "text")
    blocks = "\n".join(block.get("thinking") or "" for block in response["content"])
    thinking, text = split_thinking(prefill + (written.removeprefix(prefill) if echoes else written))
    counts, cost = _token_counts(response), (record["seconds"], record["dollars"])
    writes = sum(counts["cache_write"].values())
    usage = Usage(counts["input_tokens"], writes, counts["cache_read"], counts["output"], *cost)
    reason = response.get("stop_reason") or "end_turn"
    reason = reason.replace("model_context_window_exceeded", "max_tokens")
    return Completion(text, usage, reason, (thinking or blocks).strip())
