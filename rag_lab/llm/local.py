"""Language models on transformers, with their prefix cache; and the types that they share with Claude."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_lab.llm.chat_template import chat_tokens, text_tokens
from rag_lab.llm.generation import Reading, Writing, batches, bears_gaps
from rag_lab.llm.gguf import dequantised
from rag_lab.llm.prefix_cache import PrefixCache, empty_state, token_bytes
from rag_lab.llm.prefix_sharing import read_shared, write_and_rate
from rag_lab.llm.prompt import Block, Completion, Prompt, Stream, Usage, finish
from rag_lab.models import hub
from rag_lab.models.cpu_kernels import pack_linear_layers
from rag_lab.models.long_attention import use_block_attention

STATE_BYTES = 1 << 30  # of keys and values that texts have side by side, at most; a text alone may have more


class LocalLLM:
    """A chat model on transformers; ``model`` and ``tokenizer`` are transformers' own, for what is not offered here.

    With ``prefix_cache`` a prompt's fixed beginning (up to its last block with ``cache`` set) is read once and its
    key-value state reused; answers are the same without it, but for rounding, and slower.
    """

    paid = enforces_schema = False
    needs_prefill = True
    thinking_tokens = 0

    def __init__(self, name: str, model: Any, tokenizer: Any, prefix_cache: bool = True, identity: str = "") -> None:
        self.name = name
        self.identity = identity or name  # what results of this model are kept under
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.prefix_cache = prefix_cache and bears_gaps(model)  # a beginning, then rows filled up to one length
        config = model.config.get_text_config()
        names = ("max_position_embeddings", "max_seq_len")  # the second is MPT's
        self.window: int = next(getattr(config, name) for name in names if hasattr(config, name))  # prompt and answer
        ends = model.generation_config.eos_token_id
        self._ends = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}

    @cached_property
    def _room(self) -> int:
        """How many ids may be side by side."""
        return STATE_BYTES // max(1, token_bytes(self.model))

    @cached_property
    def _prefixes(self) -> PrefixCache:
        return PrefixCache(self.model, max_tokens=min(self.window, self._room))

    @classmethod
    def load(
        cls, name: str = "smollm2", dtype: str | None = None, device: str | None = None, prefix_cache: bool = True
    ) -> "LocalLLM":
        """Load by short name, hub id or path (see ``models.resolve``, whose errors it raises).

        ``dtype`` is ``float32`` or ``bfloat16``; by default bfloat16 where the device computes it, and ``device``
        the first of CUDA, MPS and CPU that is there. A GGUF is de-quantised once (see ``gguf_cache``).
        """
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()  # reading the weights takes a moment; downloads have a bar of their own
        files = hub.resolve(name, "language model")
        source = files.path_or_id
        if files.gguf_file:
            source = str(dequantised(Path(source) / files.gguf_file))
        device = device or hub.device()
        dtype = dtype or hub.best_dtype(device)
        model, report = AutoModelForCausalLM.from_pretrained(
            source, dtype=getattr(torch, dtype), output_loading_info=True
        )
        if missing := sorted(report["missing_keys"]):
            raise ValueError(
                f"{name} is no language model: it has no weights for {missing[0]} and {len(missing) - 1} more."
            )
        identity = name if files.source == "package" else _weights_identity(source, model)
        model = use_block_attention(pack_linear_layers(model.to(device)))
        return cls(name, model, AutoTokenizer.from_pretrained(source), prefix_cache, identity)

    def __repr__(self) -> str:
        return f"LocalLLM({self.name!r}, {self.dtype})"

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
        schema: Mapping[str, Any] | None = None,
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
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> Stream:
        """Pieces of the answer as they are written, never half a character; the generator returns the Completion.

        Joined, the pieces are ``Completion.text``, which starts with the prompt's beginning, if it has one, and ends
        before the first of the ``stop`` texts. Temperature 0 takes the likeliest token, above it tokens are drawn
        with ``seed``. A ``schema`` is only asked for, in the system text: what comes back may not follow it.
        Raises TypeError for a prompt that is not a Prompt, ValueError where prompt and answer exceed the window.
        """
        prefix, row = self._prepare(prompt, max_tokens, temperature, schema, stop, seed)

        def pieces() -> Stream:
            started = time.perf_counter()
            unread = len(row.unread)
            reading, known = self._start(prefix, 1)
            while not row.reason:
                row.step(reading.read([row.unread])[0, -1])
                if piece := row.piece():
                    yield piece
            seconds = time.perf_counter() - started
            usage = Usage(unread, len(prefix) - known, known, len(row.written), seconds)
            return Completion(row.text, usage, row.reason)

        return pieces()

    def complete_many(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
        batch_size: int = 8,
    ) -> list[Completion]:
        """``complete`` for each prompt, in order; those with the same fixed beginning are written side by side.

        A batch's seconds are shared out evenly. In bfloat16 it may round to other tokens than a prompt alone does.
        """
        rows = [self._prepare(prompt, max_tokens, temperature, schema, stop, seed) for prompt in prompts]
        usages = [Usage()] * len(rows)
        unread_rows = [(prefix, row.unread) for prefix, row in rows]
        for prefix, batch in batches(unread_rows, self._room, batch_size, more=max_tokens):
            started = time.perf_counter()
            unread = [len(rows[i][1].unread) for i in batch]
            reading, known = self._start(prefix, len(batch))
            writing = [rows[i][1] for i in batch]
            while writing:
                for row, logits in zip(writing, reading.read([row.unread for row in writing]), strict=True):
                    row.step(logits[-1])
                going = [i for i, row in enumerate(writing) if not row.reason]
                if 0 < len(going) < len(writing):
                    reading.keep_rows(going)
                writing = [writing[i] for i in going]
            seconds = (time.perf_counter() - started) / len(batch)
            for i, count in zip(batch, unread, strict=True):
                usages[i] = Usage(count, len(prefix) - known, known, len(rows[i][1].written), seconds)
                known = len(prefix)  # only the first has paid for reading it
        return [Completion(row.text, usage, row.reason) for (_, row), usage in zip(rows, usages, strict=True)]

    def complete_groups(
        self,
        groups: Sequence[Sequence[Prompt]],
        max_tokens: int = 256,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> list[list[Completion]]:
        """``complete_many`` for several groups of prompts."""
        prompts = [prompt for group in groups for prompt in group]
        completions = iter(self.complete_many(prompts, max_tokens, temperature, schema, stop))
        return [[next(completions) for _ in group] for group in groups]

    def log_likelihood(self, prompt: Prompt, continuation: str) -> float:
        """Log-probability in nats of ``continuation`` after ``prompt``: the sum over its tokens, each given the rest.

        The continuation is tokenised on its own, as it would be written: after a beginning it starts with its space.
        """
        return self.log_likelihoods([prompt], [continuation])[0]

    def log_likelihoods(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], batch_size: int = 8
    ) -> list[float]:
        """``log_likelihood`` of each pair, in order; those with the same fixed beginning are read side by side."""
        import torch

        rows = []
        for prompt, continuation in zip(prompts, continuations, strict=True):
            answer = text_tokens(self.tokenizer, continuation)
            if not answer:
                raise ValueError("The continuation is empty: there is nothing to find the likelihood of.")
            prefix, unread, _ = self._tokens(prompt, len(answer))
            rows.append((prefix, unread + answer[:-1], answer))
        totals = [0.0] * len(rows)
        for prefix, batch in batches([row[:2] for row in rows], self._room, batch_size):
            reading, _ = self._start(prefix, len(batch))
            logits = reading.read([rows[i][1] for i in batch], keep=max(len(rows[i][2]) for i in batch))
            for row, i in zip(logits, batch, strict=True):
                answer = torch.tensor(rows[i][2], device=row.device)[:, None]
                totals[i] = row[-len(answer) :].float().log_softmax(-1).gather(1, answer).sum().item()
        return totals

    def complete_and_rate(
        self, prompts: Sequence[Prompt], expected: Sequence[str], max_tokens: int = 64, stop: Sequence[str] = ()
    ) -> Iterator[tuple[int, Completion, float]]:
        """For each prompt its number, what ``complete`` gives, and ``log_likelihood`` of ``expected``: one reading.

        They come as they are done. What prompts begin with in common is read once, wherever it ends: neither cache
        marks nor ``prefix_cache`` matter. Answers are written side by side, so bfloat16 may round to other tokens. A
        model that bears no gaps (see ``decoding``) reads one prompt after the other.
        Raises as both, before anything is read.
        """
        texts, writing, answers = [], [], []
        for prompt, answer in zip(prompts, expected, strict=True):
            answers.append(text_tokens(self.tokenizer, answer))
            if not answers[-1]:
                raise ValueError("An expected answer is empty: there is nothing to find the likelihood of.")
            room = max(max_tokens, len(answers[-1])) if max_tokens > 0 else max_tokens  # 0 and less are refused
            prefix, row = self._prepare(prompt, room, 0.0, None, stop, 0)
            row.max_tokens = max_tokens
            texts.append(prefix + row.unread)
            writing.append(row)
        if not bears_gaps(self.model):
            for i, (prompt, answer) in enumerate(zip(prompts, expected, strict=True)):
                yield i, self.complete(prompt, max_tokens, stop=stop), self.log_likelihood(prompt, answer)
            return
        started = time.perf_counter()
        more = max_tokens + max(map(len, answers), default=0)
        for rows, reading, logits in read_shared(self.model, texts, more, self._room):
            rated = write_and_rate(reading, logits, [writing[i] for i in rows], [answers[i] for i in rows])
            seconds = (time.perf_counter() - started) / len(rows)
            for i, likelihood in zip(rows, rated, strict=True):
                usage = Usage(len(texts[i]), output_tokens=len(writing[i].written), seconds=seconds)
                yield i, Completion(writing[i].text, usage, writing[i].reason), likelihood
            started = time.perf_counter()

    def _prepare(
        self, prompt: Prompt, max_tokens: int, temperature: float, schema: Any, stop: Sequence[str], seed: int
    ) -> tuple[list[int], Writing]:
        """The fixed beginning's ids, and the answer that is to be written after the rest."""
        import torch

        if max_tokens < 1 or temperature < 0 or "" in stop:
            raise ValueError(
                f"max_tokens {max_tokens} is under 1, temperature {temperature} under 0, or a stop text empty."
            )
        prefix, unread, lead = self._tokens(prompt, max_tokens, schema)
        beginning = prompt.turns[-1].text if lead else ""
        generator = torch.Generator().manual_seed(seed)
        return prefix, Writing(
            self.tokenizer, self._ends, unread, lead, beginning, max_tokens, temperature, tuple(stop), generator
        )

    def _tokens(self, prompt: Prompt, max_tokens: int, schema: Any = None) -> tuple[list[int], list[int], list[int]]:
        """Ids of the fixed beginning, of the rest, and of the rest's end that is the assistant's beginning."""
        if not isinstance(prompt, Prompt):
            raise TypeError(f"A Prompt is needed, not {type(prompt).__name__}: write Prompt.of(question).")
        if schema is not None:
            prompt = _asking_for(prompt, schema)
        ids, fixed, beginning = chat_tokens(self.tokenizer, prompt)
        if len(ids) + max_tokens > self.window:
            raise ValueError(
                f"{self.name}: a prompt of {len(ids)} tokens and an answer of up to {max_tokens} make "
                f"{len(ids) + max_tokens}, but the window has {self.window}: shorten one of them."
            )
        fixed = min(fixed, len(ids) - 1) if self.prefix_cache else 0
        return ids[:fixed], ids[fixed:], ids[len(ids) - beginning :]

    def _start(self, prefix: list[int], rows: int) -> tuple[Reading, int]:
        """A reading that has ``prefix`` behind it, and how many of its tokens were not read now."""
        state, known = self._prefixes.state(prefix, rows) if prefix else (empty_state(), 0)
        return Reading(self.model, state, rows), known


def _weights_identity(source: str, model: Any) -> str:
    """A hub model with its revision, or a folder with the sizes and times of its files: it may be trained on."""
    if not Path(source).is_dir():
        return f"{source}@{model.config._commit_hash}"
    files = sorted(path for path in Path(source).iterdir() if path.is_file())
    return f"{source} {[(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]}"


def _asking_for(prompt: Prompt, schema: Mapping[str, Any]) -> Prompt:
    request = f"Answer only with JSON that follows this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    return replace(prompt, system=(*prompt.system, Block(f"\n\n{request}" if prompt.system else request)))
