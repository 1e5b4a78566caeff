"""The Messages API: prompts as request bodies, responses as completions. Nothing here pays or records."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_lab import costs
from rag_lab.llm import Block, Completion, Prompt, Usage

if TYPE_CHECKING:
    import anthropic

MAX_CACHE_MARKS = 4  # of the API


class CallFailed(RuntimeError):  # noqa: N818
    """One call failed, with its reason; other calls may work. Never an answer."""


def request(
    price: costs.Price,
    prompt: Prompt,
    max_tokens: int,
    temperature: float,
    schema: Mapping[str, Any] | None,
    effort: str,
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


def call(body: Mapping[str, Any], count_tokens: Callable[[str], int]) -> costs.Call:
    """The tokens of a request by an offline count, with all of ``max_tokens`` written.

    Its beginning, up to the last block marked for the cache, is the prefix.
    """
    blocks = all_blocks(body)
    texts = ["\n".join(_strings(block)) for block in blocks]
    counts = [count_tokens(text) for text in texts]
    marked = max((number for number, block in enumerate(blocks, 1) if block.get("cache_control")), default=0)
    rest = sum(counts[marked:]) + costs.MESSAGE_TOKENS * (len(body["messages"]) + ("system" in body))
    if form := (body.get("output_config") or {}).get("format"):
        rest += count_tokens(json.dumps(form))
    return costs.Call(rest, body["max_tokens"], "\x00".join(texts[:marked]), sum(counts[:marked]))


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
    return costs.dollars(model, **token_counts(response), batch=batch)


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
