"""What calls to paid models cost: prices, and estimates before anything is sent."""

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from rag_lab import settings

DEFAULT_WINDOW = 200_000  # tokens; for a model whose window prices.yaml does not give
MESSAGE_TOKENS = 16  # added per message in offline counts: roles and separators


@dataclass(frozen=True)
class Price:
    """One model's prices in US dollars per million tokens, and what its API accepts (see ``data/prices.yaml``).

    ``cache_write`` maps the lifetime of a cache (``5m``, ``1h``) to its price; ``storage_hour`` is the price of
    storing a million tokens for an hour. ``min_cache_tokens`` is the shortest prefix that is cached, None if unknown.
    """

    model: str
    date: str
    input: float
    output: float
    cache_read: float
    cache_write: Mapping[str, float] = field(default_factory=dict)
    storage_hour: float = 0.0
    long_prompt: Mapping[str, float] | None = None
    until: str = ""
    window: int = DEFAULT_WINDOW
    min_cache_tokens: int | None = None
    prefill: bool = True
    temperature: bool = True
    thinking: str = ""


@functools.cache
def _table() -> dict[str, Any]:
    return yaml.safe_load((settings.DATA / "prices.yaml").read_text("utf-8"))


@functools.cache
def price(model: str) -> Price:
    """The price entry of ``model``; a dated name (``-20251001``) uses its family's, ``local/…`` that of ``local``.

    Raises ValueError if the model has none; the message says how to add one.
    """
    models = _table()["models"]
    name = "local" if model.startswith("local/") else re.sub(r"-\d{8}$", "", model)
    if name not in models:
        raise ValueError(
            f"No price is known for model {model!r}. Known: {', '.join(models)}. Add an entry under `models` in "
            "data/prices.yaml with its published prices, their source and date; for a server of your own behind "
            "ANTHROPIC_BASE_URL use 'local' or 'local/<model>'."
        )
    entry = {"date": _table()["date"], "until": "", **models[name]}
    return Price(model=model, **{**entry, "date": str(entry["date"]), "until": str(entry["until"])})


def dollars(
    model: str,
    input_tokens: int = 0,
    cache_read: int = 0,
    output: int = 0,
    cache_write: Mapping[str, int] | None = None,
    batch: bool = False,
) -> float:
    """US dollars of one request: uncached input, cache reads, output, and cache writes by lifetime.

    A request whose prompt is longer than the model's ``long_prompt`` limit pays the higher rate for every token.
    Raises ValueError if the model is unknown or does not offer a cache lifetime.
    """
    rates, writes = price(model), cache_write or {}
    total = input_tokens * rates.input + cache_read * rates.cache_read + output * rates.output
    total += sum(tokens * _write_price(rates, ttl) for ttl, tokens in writes.items() if tokens)
    if rates.long_prompt and input_tokens + cache_read + sum(writes.values()) > rates.long_prompt["above"]:
        total *= rates.long_prompt["factor"]
    return total / 1e6 * (_table()["batch_factor"] if batch else 1.0)


def _write_price(rates: Price, ttl: str) -> float:
    if ttl not in rates.cache_write:
        offered = ", ".join(rates.cache_write) or "none"
        raise ValueError(f"{rates.model} has no {ttl!r} cache; offered: {offered}.")
    return rates.cache_write[ttl]


def token_bound(text: str) -> int:
    """The most tokens that ``text`` can have: its UTF-8 bytes, since each token of a byte-level tokenizer has one.

    It is safe in every script, and three to four times Claude's count in English. Limits use it (the cap, the window,
    a token budget without the API); estimates of money use ``token_estimate``.
    """
    return len(text.encode("utf-8", "surrogatepass"))


_PIECES = re.compile(r"([A-Z]?[a-z]+|[A-Z]+)|( (?=\S))|(.)", re.DOTALL)


def token_estimate(text: str) -> int:
    """About how many tokens ``text`` has, counted offline and on the high side.

    One per two ASCII letters of a run (a run ends before an upper-case letter), none for a single space before other
    text, one per other ASCII character, and ``token_bound`` for every other character. That is 1.8 characters per
    token of English; Claude models since 4.7 average 2.5 (platform.claude.com, models overview). Strings of random
    letters can have more tokens than this.
    """
    return sum(
        (len(letters) + 1) // 2 if letters else 0 if space else token_bound(other)
        for letters, space, other in _PIECES.findall(text)
    )


@dataclass(frozen=True)
class Call:
    """The tokens of one request. Calls with the same ``prefix`` (any name but "") share a cached prefix."""

    tokens: int  # of the prompt, without the prefix
    output_tokens: int
    prefix: str = ""
    prefix_tokens: int = 0

    @property
    def window(self) -> int:
        """Tokens of the whole prompt and the output."""
        return self.prefix_tokens + self.tokens + self.output_tokens


def context_calls(
    document_tokens: Sequence[int],
    chunk_tokens: int = 800,
    instruction_tokens: int = 50,
    context_tokens: int = 100,
    prewarm: bool = False,
) -> list[Call]:
    """The calls that write a context for every chunk of documents of these lengths, one call per chunk, in order.

    The defaults are the assumptions of Anthropic's "Introducing Contextual Retrieval" (2024). With ``prewarm``, a
    call without output first writes each document to the cache, and every chunk reads it: the arithmetic of the
    published $1.02 per million document tokens. Without it the first chunk's call writes, the others read: $0.99.
    """
    calls = []
    for number, length in enumerate(document_tokens):
        prefix = f"document {number}", length
        calls += [Call(0, 0, *prefix)] if prewarm else []
        chunks = (min(chunk_tokens, length - start) for start in range(0, length, chunk_tokens))
        calls += [Call(chunk + instruction_tokens, context_tokens, *prefix) for chunk in chunks]
    return calls


@dataclass(frozen=True)
class Limits:
    """A rate limit: requests, input tokens (cache reads are free) and output tokens per minute."""

    requests: int
    input_tokens: int
    output_tokens: int


def rate_limits(tier: str = "start") -> Limits:
    """The published limits of a usage tier in ``data/prices.yaml``. Raises ValueError if the tier is unknown."""
    tiers = _table()["rate_limits"]
    if tier not in tiers:
        raise ValueError(f"No rate limits are known for tier {tier!r}; known: {', '.join(tiers)}.")
    return Limits(**tiers[tier])


def usd(amount: float) -> str:
    """An amount of US dollars as text, to a hundredth of a cent."""
    return "under $0.0001" if 0 < amount < 0.0001 else f"${amount:.4f}"


@dataclass(frozen=True)
class Estimate:
    """What a set of calls would cost. ``minutes`` is the shortest time that rate limits and waiting allow."""

    model: str
    requests: int
    input_tokens: int
    cache_write_tokens: int
    cache_read_tokens: int
    output_tokens: int
    dollars: float
    minutes: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = (
            f"{self.model}, {self.requests:,} request(s): {self.input_tokens:,} uncached input, "
            f"{self.cache_write_tokens:,} cache write, {self.cache_read_tokens:,} cache read, "
            f"{self.output_tokens:,} output tokens: {usd(self.dollars)}"
        ) + (f", at least {self.minutes:.1f} minutes" if self.minutes else "")
        return "; ".join([line, *self.notes])


def estimate(
    model: str,
    calls: Sequence[Call],
    cache: str = "5m",
    batch: bool = False,
    hours: float = 1.0,
    limits: Limits | None = None,
    seconds_per_call: float = 0.0,
    at_once: int = 1,
) -> Estimate:
    """Cost and least duration of ``calls``, made in order, before any is sent.

    ``cache`` is the lifetime of the cache (``5m``, ``1h``; "" for no caching). The first call with a prefix writes
    it, later ones read it; a prefix under the model's minimum length is not cached. ``hours`` counts only if storage
    is charged by the hour. ``limits`` and ``seconds_per_call`` (calls with the same prefix wait for each other,
    ``at_once`` prefixes run in parallel) give the minutes; a batch has no such limits. Raises ValueError if the model
    is unknown or does not offer the cache lifetime.
    """
    rates = price(model)
    if cache:
        _write_price(rates, cache)
    prefixes = Counter(call.prefix for call in calls if call.prefix)
    written: set[str] = set()
    uncached = writes = reads = output = too_short = 0
    total = 0.0
    for call in calls:
        plain, write, read = call.tokens, 0, 0
        if not (cache and call.prefix):
            plain += call.prefix_tokens
        elif call.prefix_tokens < (rates.min_cache_tokens or 0):
            plain += call.prefix_tokens
            too_short += 1
        elif call.prefix in written:
            read = call.prefix_tokens
        else:
            write = call.prefix_tokens
            written.add(call.prefix)
        total += dollars(model, plain, read, call.output_tokens, {cache: write}, batch)
        uncached, writes, reads = uncached + plain, writes + write, reads + read
        output += call.output_tokens
    total += writes / 1e6 * hours * rates.storage_hour
    minutes = 0.0
    if limits and not batch:
        input_minutes = (uncached + writes) / limits.input_tokens
        minutes = max(len(calls) / limits.requests, input_minutes, output / limits.output_tokens)
    if calls and seconds_per_call and not batch:
        waits = max(math.ceil(len(calls) / at_once), *prefixes.values(), 1)
        minutes = max(minutes, waits * seconds_per_call / 60)
    notes = [f"prices of {rates.date}" + (f", valid until {rates.until}" if rates.until else "")]
    if too_short:
        notes += [f"{too_short} prefix(es) are under the {rates.min_cache_tokens:,} tokens that {model} caches"]
    if batch:
        notes += ["as a batch: half price, results within 24 hours, cache reads not certain"]
    return Estimate(model, len(calls), uncached, writes, reads, output, total, minutes, tuple(notes))
