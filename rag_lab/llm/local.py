"""Chat models on transformers, run on this machine."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_lab.llm.chat_template import chat_tokens, text_tokens
from rag_lab.llm.generation import (
    Generation,
    decode,
    generate_and_score,
    kv_bytes_per_token,
    prefill_shared,
    supports_left_padding,
)
from rag_lab.llm.gguf import dequantised
from rag_lab.llm.kv_cache import PrefixCache
from rag_lab.llm.prompt import Block, Completion, Prompt, Stream, Usage, finish
from rag_lab.models import hub
from rag_lab.models.cpu_kernels import pack_linear_layers
from rag_lab.models.number_format import NumberFormat, number_format
from rag_lab.text.thinking import split_thinking

MAX_KV_BYTES = 1 << 30  # of the KV cache of one batch; a single sequence may take more


class LocalLLM:
    """A chat model on transformers; ``model`` and ``tokenizer`` are transformers' own, for all else.

    ``window`` is the most tokens of prompt and answer together. Results are kept under ``identity``. With
    ``prefix_cache`` the prompt up to its last cache mark is prefilled once and its KV cache is reused by later calls;
    the output differs only by rounding.
    """

    paid = enforces_schema = False
    needs_prefill = True
    thinking_tokens = 0

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        prefix_cache: bool = True,
        identity: str = "",
        number_format: NumberFormat | None = None,
    ) -> None:
        self.name = name
        self.identity = identity or name
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.number_format = number_format or NumberFormat(self.dtype, False, "as given")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.prefix_cache = prefix_cache
        config = model.config.get_text_config()
        self.window: int = getattr(config, "max_position_embeddings", None) or config.max_seq_len  # the latter in MPT
        eos = model.generation_config.eos_token_id
        self._eos_ids = {tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])}

    @cached_property
    def _capacity(self) -> int:
        """The most tokens in the KV cache of a batch."""
        return MAX_KV_BYTES // max(1, kv_bytes_per_token(self.model))

    @cached_property
    def _prefixes(self) -> PrefixCache:
        return PrefixCache(max_tokens=min(self.window, self._capacity))

    @classmethod
    def load(
        cls, name: str = "smollm2", dtype: str | None = None, device: str | None = None, prefix_cache: bool = True
    ) -> "LocalLLM":
        """Load by short name, hub id or path (see ``hub.resolve``, whose errors it raises).

        ``dtype`` is ``float32`` or ``bfloat16``; the default is the quicker one here (see ``number_format``).
        ``device`` is by default the first of CUDA, MPS and CPU that exists. A GGUF is de-quantised once (see
        ``gguf``). Raises ValueError if the model is not a language model, and RuntimeError as ``hub.own_code`` does.
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
        chosen = number_format("language model", device, dtype)
        own_code = hub.own_code(files)
        model, report = AutoModelForCausalLM.from_pretrained(
            source, dtype=getattr(torch, chosen.dtype), output_loading_info=True, **own_code
        )
        if missing := sorted(report["missing_keys"]):
            raise ValueError(
                f"{name} is not a language model: it has no weights for {missing[0]} and {len(missing) - 1} more."
            )
        identity = name if files.source == "package" else f"{name}@{hub.weights_revision(name)}"
        model = pack_linear_layers(model.to(device)) if chosen.packed else model.to(device)
        return cls(name, model, AutoTokenizer.from_pretrained(source, **own_code), prefix_cache, identity, chosen)

    def __repr__(self) -> str:
        return f"LocalLLM({self.name!r}, {self.number_format})"

    def count_tokens(self, text: str) -> int:
        """Tokens of a text alone; nothing in it counts as a control token."""
        return len(text_tokens(self.tokenizer, text))

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of a prompt, those of the chat template included."""
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
        """The whole answer to ``prompt``; parameters and errors as in ``stream``."""
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
        """Text deltas of the answer, never half a character; the generator returns the Completion.

        Joined, the deltas are ``Completion.text``, without thoughts (``<think>``). It starts with the prompt's
        prefill, if there is one, and ends before the first of the ``stop`` texts. Temperature 0 takes the most likely
        token; above 0, tokens are sampled with ``seed``. A ``schema`` is only described in the system text: the
        answer may not follow it.
        Raises TypeError unless ``prompt`` is a Prompt, ValueError if prompt and answer exceed the window.
        """
        row = self._generation(prompt, max_tokens, temperature, schema, stop, seed)

        def deltas() -> Stream:
            started = time.perf_counter()
            _, batch, logits = next(prefill_shared(self.model, [row], max_tokens, **self._batching(1)))
            for _ in decode(batch, [row], logits):
                if delta := row.text_delta():
                    yield delta
            return _completion(row, time.perf_counter() - started)

        return deltas()

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
        """``complete`` for each prompt, in order, decoded in batches; a batch's seconds are divided evenly.

        In bfloat16, a prompt in a batch may round to other tokens than the same prompt alone.
        """
        rows = [self._generation(prompt, max_tokens, temperature, schema, stop, seed) for prompt in prompts]
        done = sorted(self._run(rows, [[]] * len(rows), batch_size), key=lambda found: found[0])
        return [completion for _, completion, _ in done]

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

        The continuation is tokenised alone, as it would be generated: after a prefill it starts with its space.
        """
        return self.log_likelihoods([prompt], [continuation])[0]

    def log_likelihoods(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], batch_size: int = 8
    ) -> list[float]:
        """``log_likelihood`` of each pair, in order, computed in batches."""
        rows, expected = [], []
        for prompt, continuation in zip(prompts, continuations, strict=True):
            expected.append(self._text_ids(continuation))
            rows.append(self._generation(prompt, len(expected[-1])))
            rows[-1].max_tokens, rows[-1].stop_reason = 0, "max_tokens"  # only scored
        done = sorted(self._run(rows, expected, batch_size), key=lambda found: found[0])
        return [score for _, _, score in done]

    def generate_and_score(
        self, prompts: Sequence[Prompt], expected: Sequence[str], max_tokens: int = 64, stop: Sequence[str] = ()
    ) -> Iterator[tuple[int, Completion, float]]:
        """For each prompt: its number, what ``complete`` gives, and ``log_likelihood`` of ``expected``.

        They come batch by batch, not in order. Each prefix that prompts share is prefilled once, wherever it ends;
        the prefix cache is not used, and usage counts every prompt in full. In bfloat16, the answers may round to
        other tokens than in ``complete``.
        Raises what ``complete`` and ``log_likelihood`` raise, before the first forward pass.
        """
        rows, ids = [], []
        for prompt, answer in zip(prompts, expected, strict=True):
            ids.append(self._text_ids(answer))
            rows.append(self._generation(prompt, max_tokens, stop=stop, min_tokens=len(ids[-1])))
            rows[-1].prefix_length = 0
        yield from self._run(rows, ids, len(rows), share_all=True)

    def _run(
        self, rows: Sequence[Generation], expected: Sequence[list[int]], max_rows: int, share_all: bool = False
    ) -> Iterator[tuple[int, Completion, float]]:
        started = time.perf_counter()
        options = self._batching(max_rows) | {"share_all": share_all}
        for batch, scores in generate_and_score(self.model, rows, expected, **options):
            seconds = (time.perf_counter() - started) / len(batch)
            for i, score in zip(batch, scores, strict=True):
                yield i, _completion(rows[i], seconds), score
            started = time.perf_counter()

    def _batching(self, max_rows: int) -> dict[str, Any]:
        """The options of ``prefill_shared``."""
        max_rows = max_rows if supports_left_padding(self.model) else 1
        return {"max_rows": max_rows, "capacity": self._capacity, "prefix_cache": self._prefixes}

    def _text_ids(self, text: str) -> list[int]:
        ids = text_tokens(self.tokenizer, text)
        if not ids:
            raise ValueError(f"The text to score is {text!r}, which has no tokens: give one that has.")
        return ids

    def _generation(
        self,
        prompt: Prompt,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
        min_tokens: int = 0,
    ) -> Generation:
        """The state of an answer before its first token. ``min_tokens`` must fit the window too."""
        import torch

        if not isinstance(prompt, Prompt):
            raise TypeError(f"A Prompt is needed, not {type(prompt).__name__}: write Prompt.of(question).")
        if max_tokens < 1 or not 0 <= temperature < math.inf or isinstance(stop, str) or "" in stop:
            raise ValueError(
                f"max_tokens is {max_tokens}, temperature {temperature}, stop {stop!r}: pass at least 1 token, "
                "a temperature of at least 0, and a list of stop texts, none of them empty."
            )
        ids, prefix_length, prefill_length = chat_tokens(self.tokenizer, _with_schema(prompt, schema))
        longest = max(max_tokens, min_tokens)
        if len(ids) + longest > self.window:
            raise ValueError(
                f"{self.name}: a prompt of {len(ids)} tokens and an answer of up to {longest} make "
                f"{len(ids) + longest}, but the window has {self.window}: shorten one of them."
            )
        return Generation(
            self.tokenizer,
            ids,
            max_tokens,
            self._eos_ids,
            prefix_length=min(prefix_length, len(ids) - 1) if self.prefix_cache else 0,
            prefill_length=prefill_length,
            prefill=prompt.turns[-1].text if prefill_length else "",
            temperature=temperature,
            stop=tuple(stop),
            generator=torch.Generator().manual_seed(seed),
        )


def _completion(row: Generation, seconds: float) -> Completion:
    new_prefix = row.prefix_length - row.cached_tokens
    prompt_tokens = len(row.prompt_ids) - row.prefix_length
    usage = Usage(prompt_tokens, new_prefix, row.cached_tokens, len(row.output_ids), seconds)
    start = row.answer_start()
    thinking = split_thinking(row.text)[0] or (row.text if row.thinks_first and start else "")
    return Completion(row.text[start:], usage, row.stop_reason, thinking.strip())


def _with_schema(prompt: Prompt, schema: Mapping[str, Any] | None) -> Prompt:
    if schema is None:
        return prompt
    request = f"Answer only with JSON that follows this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    return replace(prompt, system=(*prompt.system, Block(f"\n\n{request}" if prompt.system else request)))
