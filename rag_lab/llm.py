"""Language models: the prompt and completion types that every model shares, and local models on transformers."""

import itertools
import json
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rag_lab import models
from rag_lab.chat_tokens import ChatTokens, chat_tokens, text_tokens
from rag_lab.decoding import choose, forward, unsettled
from rag_lab.gguf_cache import dequantised
from rag_lab.prefix_cache import PrefixCache, copy_state, empty_state

CacheTime = Literal["", "5m", "1h"]


@dataclass(frozen=True)
class Block:
    """A piece of a prompt. ``cache`` marks the end of a beginning worth keeping (5 minutes or 1 hour at Claude)."""

    text: str
    cache: CacheTime = ""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The blocks' texts, joined with nothing between them."""
        return "".join(block.text for block in self.blocks)


@dataclass(frozen=True)
class Prompt:
    """System blocks and turns. A last turn by the assistant is a beginning that the model continues."""

    turns: tuple[Turn, ...]
    system: tuple[Block, ...] = ()

    @classmethod
    def of(
        cls, question: str, system: str = "", history: Sequence[tuple[str, str]] = (), beginning: str = ""
    ) -> "Prompt":
        """A prompt from plain strings; ``history`` holds (role, text) pairs, oldest first."""
        turns = [Turn(role, (Block(text),)) for role, text in history]  # type: ignore[arg-type]
        turns.append(Turn("user", (Block(question),)))
        if beginning:
            turns.append(Turn("assistant", (Block(beginning),)))
        return cls(tuple(turns), (Block(system),) if system else ())


@dataclass(frozen=True)
class Usage:
    """Tokens, seconds and US dollars of one call or, added up, of many. Local models cost no dollars."""

    input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    dollars: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.output_tokens + other.output_tokens,
            self.seconds + other.seconds,
            self.dollars + other.dollars,
        )


@dataclass(frozen=True)
class Completion:
    """What a model wrote. ``stop_reason``: ``end_turn``, ``max_tokens``, ``refusal`` or ``stop_sequence``."""

    text: str
    usage: Usage
    stop_reason: str


Stream = Generator[str, None, Completion]


def finish(stream: Stream) -> Completion:
    """Run a model's stream to its end and return the Completion that it ends with."""
    while True:
        try:
            next(stream)
        except StopIteration as end:
            return end.value


class LocalLLM:
    """A chat model on transformers. ``model`` and ``tokenizer`` are transformers' own, for what is not offered here.

    With ``prefix_cache`` a prompt's fixed beginning (up to its last block with ``cache`` set) is read once and its
    key-value state reused; answers are the same without, and slower.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, prefix_cache: bool = True) -> None:
        self.name = name
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.prefix_cache = prefix_cache
        self.window: int = model.config.get_text_config().max_position_embeddings  # tokens, prompt and answer
        ends = model.generation_config.eos_token_id
        self._ends = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        self._prefixes = PrefixCache(model, max_tokens=self.window)

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        dtype: str | None = None,
        device: str | None = None,
        prefix_cache: bool = True,
    ) -> "LocalLLM":
        """Load by short name, hub id or path (see ``models.resolve``, whose errors it raises).

        ``dtype`` is ``float32`` or ``bfloat16``; by default bfloat16 where the device computes it, and ``device``
        the first of CUDA, MPS and CPU that is there. A GGUF is de-quantised once (see ``gguf_cache``).
        """
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        files = models.resolve(name)
        source = files.path_or_id
        if files.gguf_file:
            source = str(dequantised(Path(source) / files.gguf_file))
        device = device or models.device()
        dtype = dtype or models.best_dtype(device)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, dtype)).to(device)
        return cls(name, model, AutoTokenizer.from_pretrained(source), prefix_cache)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text on its own, in which nothing counts as a control token."""
        return len(text_tokens(self.tokenizer, text))

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of a prompt as it is read, with the chat template's own."""
        return len(chat_tokens(self.tokenizer, prompt).ids)

    def complete(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> Completion:
        """What the model writes after ``prompt``; see ``stream``."""
        return finish(self.stream(prompt, max_tokens, temperature, schema, stop, seed))

    def stream(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> Stream:
        """Pieces of the answer as they are written, never half a character; the generator returns the Completion.

        Joined, the pieces are ``Completion.text``, which starts with the prompt's beginning, if it has one, and ends
        before the first of the ``stop`` texts. Temperature 0 takes the likeliest token, above it tokens are drawn
        with ``seed``. A ``schema`` is only asked for, in the system text: what comes back may not follow it.
        Raises TypeError for a prompt that is not a Prompt, ValueError where prompt and answer exceed the window.
        """
        if not isinstance(prompt, Prompt):
            raise TypeError(f"A Prompt is needed, not {type(prompt).__name__}: write Prompt.of(question).")
        if max_tokens < 1 or temperature < 0 or "" in stop:
            raise ValueError(
                f"max_tokens ({max_tokens}) must be at least 1, temperature ({temperature}) at least 0, and no stop "
                "text empty."
            )
        tokens = chat_tokens(self.tokenizer, _asking_for(prompt, schema))
        self._check_window(len(tokens.ids), max_tokens)
        beginning = prompt.turns[-1].text if tokens.beginning else ""
        return self._generate(tokens, beginning, max_tokens, temperature, tuple(stop), seed)

    def log_likelihood(self, prompt: Prompt, continuation: str) -> float:
        """Log-probability in nats of ``continuation`` after ``prompt``: the sum over its tokens, each given the rest.

        The continuation is tokenised on its own, as it would be written: after a beginning it starts with its space.
        """
        return self.log_likelihoods([prompt], [continuation])[0]

    def log_likelihoods(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], batch_size: int = 8
    ) -> list[float]:
        """``log_likelihood`` of each pair, read in batches of those whose prompts share a fixed beginning."""
        import torch

        rows = []
        for prompt, continuation in zip(prompts, continuations, strict=True):
            ids, fixed, _ = chat_tokens(self.tokenizer, prompt)
            answer = text_tokens(self.tokenizer, continuation)
            if not answer:
                raise ValueError("The continuation is empty: there is nothing to find the likelihood of.")
            self._check_window(len(ids), len(answer))
            fixed = min(fixed, len(ids) - 1) if self.prefix_cache else 0
            rows.append((tuple(ids[:fixed]), ids[fixed:], answer))
        order = sorted(range(len(rows)), key=lambda i: (rows[i][0], len(rows[i][1])))
        totals = [0.0] * len(rows)
        for prefix, group in itertools.groupby(order, key=lambda i: rows[i][0]):
            same = list(group)
            for batch in (same[i : i + batch_size] for i in range(0, len(same), batch_size)):
                read = [rows[i][1] + rows[i][2][:-1] for i in batch]
                width = max(map(len, read))
                padded = [row + row[-1:] * (width - len(row)) for row in read]  # what follows a row is not looked at
                first = min(len(rows[i][1]) for i in batch) - 1
                state = self._state(list(prefix), len(batch))[0]
                logits = forward(self.model, padded, state, keep=width - first)
                for row, i in enumerate(batch):
                    start = len(rows[i][1]) - 1 - first
                    scores = logits[row, start : start + len(rows[i][2])].float().log_softmax(-1)
                    answer_ids = torch.tensor(rows[i][2], device=scores.device)
                    totals[i] = scores.gather(1, answer_ids[:, None]).sum().item()
        return totals

    def _check_window(self, prompt_tokens: int, answer_tokens: int) -> None:
        if prompt_tokens + answer_tokens > self.window:
            raise ValueError(
                f"{self.name}: a prompt of {prompt_tokens} tokens and an answer of up to {answer_tokens} make "
                f"{prompt_tokens + answer_tokens}, but the window has {self.window}: shorten one of them."
            )

    def _state(self, prefix: list[int], rows: int = 1) -> tuple[Any, int]:
        """The state after ``prefix``, ``rows`` times over, and how many of its tokens were not read now."""
        state, known = self._prefixes.state(prefix) if prefix else (empty_state(), 0)
        return (state if rows == 1 else copy_state(state, len(prefix), rows)), known

    def _generate(
        self,
        tokens: ChatTokens,
        beginning: str,
        max_tokens: int,
        temperature: float,
        stop: tuple[str, ...],
        seed: int,
    ) -> Stream:
        import torch

        started = time.perf_counter()
        generator = torch.Generator().manual_seed(seed)
        fixed = min(tokens.fixed, len(tokens.ids) - 1) if self.prefix_cache else 0
        state, known = self._state(tokens.ids[:fixed])
        lead = tokens.ids[len(tokens.ids) - tokens.beginning :]  # decoded along, since some decoders look back
        written: list[int] = []
        text, sent, reason = beginning, 0, "max_tokens"
        unread = tokens.ids[fixed:]
        while len(written) < max_tokens:
            token = choose(forward(self.model, [unread], state)[0, -1], temperature, generator)
            if token in self._ends:
                reason = "end_turn"
                break
            written.append(token)
            unread = [token]
            text = beginning + self._decode(lead + written)[len(self._decode(lead)) :]
            stops = [at for mark in stop if (at := text.find(mark, len(beginning))) >= 0]
            if stops:
                text, reason = text[: min(stops)], "stop_sequence"
                break
            ready = len(text) - unsettled(text[len(beginning) :], stop)
            if ready > sent:
                yield text[sent:ready]
                sent = ready
        if reason == "max_tokens":
            text = text.rstrip("\ufffd")  # half a character, whose rest was not to come
        if sent < len(text):
            yield text[sent:]
        seconds = time.perf_counter() - started
        return Completion(
            text,
            Usage(len(tokens.ids) - fixed, fixed - known, known, len(written), seconds),
            reason,
        )

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _asking_for(prompt: Prompt, schema: dict[str, Any] | None) -> Prompt:
    if schema is None:
        return prompt
    request = f"Answer only with JSON that follows this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    return replace(prompt, system=(*prompt.system, Block(f"\n\n{request}" if prompt.system else request)))
