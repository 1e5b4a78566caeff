"""Prefill and decode with a local model, several sequences in one batch, shared prefixes computed once."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rag_lab.llm.chat_template import common_length
from rag_lab.llm.kv_cache import PrefixCache, copy_rows, empty_cache
from rag_lab.text.thinking import CLOSE, OPEN

# torch's own attention also computes what the mask hides: half of the scores of one long prompt, less in chunks.
PREFILL_CHUNK_TOKENS = 640


def supports_left_padding(model: Any) -> bool:
    """Whether masked tokens may lie before or between a row's own.

    Not if the model counts distances in columns of the KV cache: without position ids (MPT's ALiBi), or with a
    sliding window (Mistral; "local" in GPT-Neo).
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    slides = set(kinds) - {"full_attention", "global"} if kinds else getattr(config, "sliding_window", None)
    return "position_ids" in inspect.signature(model.forward).parameters and not slides


class DecodingBatch:
    """A batch of sequences and its KV cache. Rows are left-padded: ``lengths`` are their tokens without padding."""

    def __init__(self, model: Any, kv_cache: Any, lengths: Sequence[int]) -> None:
        self._model = model
        self._kv_cache = kv_cache
        self._mask = self._left_padded([[1] * n for n in lengths])

    def forward(self, token_ids: Sequence[Sequence[int]], logits_to_keep: int = 1) -> Any:
        """Append token ids to each row; the logits at the last ``logits_to_keep``: (rows, to keep, vocabulary).

        Rows may differ in length: the shorter ones are left-padded.
        """
        import torch

        ids = self._left_padded(token_ids)
        mask = self._left_padded([[1] * len(row) for row in token_ids])
        self._mask = torch.cat([self._mask, mask], dim=1)
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        with torch.inference_mode():
            return self._model(
                input_ids=ids,
                attention_mask=self._mask,
                position_ids=positions,
                cache=self._kv_cache,
                logits_to_keep=logits_to_keep,
            ).logits

    def rollback(self, counts: Sequence[int]) -> None:
        """Remove the last ``counts[row]`` tokens of each row: cropped if all rows lose them, else masked."""
        width = self._mask.shape[1] - min(counts)
        self._kv_cache.crop(-min(counts))
        self._mask = self._mask[:, :width]
        for row, count in enumerate(counts):
            self._mask[row, width - count + min(counts) :] = 0

    def select_rows(self, rows: list[int]) -> None:
        """Keep only these rows, in increasing order."""
        import torch

        with torch.inference_mode():
            self._kv_cache.batch_select_indices(rows)
        self._mask = self._mask[rows]

    def _left_padded(self, rows: Sequence[Sequence[int]]) -> Any:
        import torch

        width = max(map(len, rows))
        padded = [[0] * (width - len(row)) + list(row) for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self._model.device)


@dataclass
class Generation:
    """One sequence: its prompt, and its answer while it is decoded.

    ``text`` begins with ``prefill``, whose ids are the prompt's last ``prefill_length``: they are decoded along,
    since some decoders look back. ``stop_reason`` is "" until the answer ends. The first ``prefix_length`` ids of
    the prompt go to the prefix cache; ``cached_tokens`` of them were there already.
    """

    tokenizer: Any
    prompt_ids: list[int]
    max_tokens: int
    eos_ids: set[int] = field(default_factory=set)
    prefix_length: int = 0
    prefill_length: int = 0
    prefill: str = ""
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    generator: Any = None
    output_ids: list[int] = field(default_factory=list)
    text: str = ""
    stop_reason: str = ""
    cached_tokens: int = 0
    thinks_first: bool = False  # the chat template opens the thoughts
    _sent: int = 0

    def __post_init__(self) -> None:
        self.text = self.prefill
        self.thinks_first = self._decode(self.prompt_ids[-8:]).rstrip().endswith(OPEN)

    def step(self, logits: Any) -> None:
        """Add the next token, given its logits (vocabulary,)."""
        token = sample_token(logits, self.temperature, self.generator)
        if token in self.eos_ids:
            self.stop_reason = "end_turn"
            return
        self.output_ids.append(token)
        before = self.prompt_ids[len(self.prompt_ids) - self.prefill_length :]
        self.text = self.prefill + self._decode(before + self.output_ids)[len(self._decode(before)) :]
        answer = max(len(self.prefill), self.answer_start())
        found = [self.text.find(stop, answer) for stop in self.stop]
        if stops := [at for at in found if at >= 0]:
            self.text, self.stop_reason = self.text[: min(stops)], "stop_sequence"
        elif len(self.output_ids) == self.max_tokens:
            # The rest of a character cut in half will not come.
            self.text, self.stop_reason = self.text.rstrip("\ufffd"), "max_tokens"

    def text_delta(self) -> str:
        """The text of the answer that became stable since the last call."""
        if (begins := self.answer_start()) == len(self.text):
            return ""
        unstable = 0 if self.stop_reason else unstable_suffix(self.text[len(self.prefill) :], self.stop)
        start, self._sent = max(self._sent, begins), max(self._sent, begins, len(self.text) - unstable)
        return self.text[start : self._sent]

    def answer_start(self) -> int:
        """Where the answer begins in ``text``: after the thoughts, and at the end as long as they last."""
        if CLOSE in self.text:
            end = self.text.index(CLOSE) + len(CLOSE)
            return len(self.text) - len(self.text[end:].lstrip())
        begun = self.text.strip()
        may_think = begun.startswith(OPEN) or (begun and OPEN.startswith(begun) and not self.stop_reason)
        return len(self.text) if may_think or self.thinks_first else 0

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def sample_token(logits: Any, temperature: float, generator: Any) -> int:
    """The most likely token at temperature 0, else one drawn from ``softmax(logits / temperature)``."""
    import torch

    if temperature == 0:
        return int(logits.argmax())
    probabilities = torch.softmax(logits.float().cpu() / temperature, dim=-1)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def unstable_suffix(text: str, stop: tuple[str, ...]) -> int:
    """How many characters at the end may still change: part of a character, or the start of a stop text."""
    partial = len(text) - len(text.rstrip("\ufffd"))
    started = (n for mark in stop for n in range(1, len(mark)) if text.endswith(mark[:n]))
    return max(partial, *started, 0)


def prefill(model: Any, kv_cache: Any, ids: list[int], known: int = 0) -> Any:
    """Append ``ids[known:]`` to a cache that holds ``ids[:known]``; the logits (vocabulary,) after the last id."""
    batch = DecodingBatch(model, kv_cache, [known])
    chunks = -(-(len(ids) - known) // PREFILL_CHUNK_TOKENS)
    size = -(-(len(ids) - known) // chunks)  # chunks of equal size: a short one costs more per token
    for start in range(known, len(ids), size):
        logits = batch.forward([ids[start : start + size]])
    return logits[0, -1]


def kv_bytes_per_token(model: Any) -> int:
    """Bytes of one token in the KV cache. One token is prefilled to see: configs do not tell for every model."""
    kv_cache = empty_cache()
    prefill(model, kv_cache, [0])
    return sum(x.numel() * x.element_size() for layer in kv_cache.layers for x in (layer.keys, layer.values))


def prefill_shared(
    model: Any,
    generations: Sequence[Generation],
    max_new_tokens: int,
    max_rows: int,
    capacity: int,
    prefix_cache: PrefixCache | None = None,
    share_all: bool = False,
) -> Iterator[tuple[list[int], DecodingBatch, list[Any]]]:
    """Prefill prompts, and yield batches: their generations' indices, the batch, the logits after each prompt.

    After sorting, neighbours share the longest prefixes. Each prompt is prefilled alone, in one cache that is cropped
    to what it shares with the prompt before, and copied to its row of the batch. Shared are the prefixes that go to
    the prefix cache or, with ``share_all``, whatever two prompts have in common. A batch has at most ``max_rows``
    rows and ``capacity`` tokens, padding and ``max_new_tokens`` per row included, but at least one row. Delete it
    before you ask for the next, to free its memory.
    """
    kv_cache, before = empty_cache(), list[int]()
    for rows in _batches([g.prompt_ids for g in generations], max_new_tokens, max_rows, capacity):
        lengths = [len(generations[i].prompt_ids) for i in rows]
        batch_cache = empty_cache()
        logits = []
        for row, i in enumerate(rows):
            ids, prefix = generations[i].prompt_ids, generations[i].prefix_length
            known = min(common_length(before, ids), len(ids) - 1 if share_all else prefix)
            generations[i].cached_tokens = prefix
            if prefix_cache and known < prefix:
                kv_cache, generations[i].cached_tokens = prefix_cache.get(ids[:prefix], partial(prefill, model))
                known = prefix
            kv_cache.crop(known - kv_cache.get_seq_length())
            logits.append(prefill(model, kv_cache, ids, known))
            if len(rows) > 1:
                copy_rows(batch_cache, row, kv_cache, len(rows), max(lengths), max(lengths) + max_new_tokens)
            before = ids
        yield rows, DecodingBatch(model, batch_cache if len(rows) > 1 else kv_cache, lengths), logits
        del batch_cache


def _batches(prompts: Sequence[list[int]], max_new_tokens: int, max_rows: int, capacity: int) -> Iterator[list[int]]:
    """Indices of the sorted prompts, batch by batch."""
    rows: list[int] = []
    width = 0
    for i in sorted(range(len(prompts)), key=lambda i: prompts[i]):
        width = max(width, len(prompts[i]) + max_new_tokens)
        if rows and (len(rows) == max_rows or (len(rows) + 1) * width > capacity):
            yield rows
            rows, width = [], len(prompts[i]) + max_new_tokens
        rows.append(i)
    if rows:
        yield rows


def decode(batch: DecodingBatch, generations: Sequence[Generation], logits: Sequence[Any] = ()) -> Iterator[None]:
    """Decode until every row has stopped, one token per row and step. Rows that have stopped leave the batch.

    ``logits`` (vocabulary,) give each row's first token, unless the rows have started.
    """
    for row, first in zip(generations, logits, strict=bool(logits)):
        row.step(first)
    yield
    while going := [i for i, row in enumerate(generations) if not row.stop_reason]:
        if len(going) < len(generations):
            batch.select_rows(going)
        generations = [generations[i] for i in going]
        following = batch.forward([row.output_ids[-1:] for row in generations])
        for row, row_logits in zip(generations, following, strict=True):
            row.step(row_logits[-1])
        yield


def score_and_start(
    batch: DecodingBatch, logits: Sequence[Any], generations: Sequence[Generation], expected: Sequence[list[int]]
) -> list[float]:
    """The log-likelihood in nats of each row's ``expected`` ids (may be empty); rows that have not stopped start.

    ``logits`` (vocabulary,) follow the prompt. The expected ids are appended in one forward pass. As long as an
    answer equals them, that pass gives its tokens too; where they part, the row is rolled back.
    """
    width = max(map(len, expected)) - 1
    after = batch.forward([ids[:-1] for ids in expected], logits_to_keep=width) if width > 0 else None
    scores, wrong = [], []
    for i, (row, ids) in enumerate(zip(generations, expected, strict=True)):
        following = [logits[i], *(after[i, width - len(ids) + 1 :] if after is not None and len(ids) > 1 else ())]
        scores.append(sum(x.float().log_softmax(-1)[token].item() for x, token in zip(following, ids, strict=False)))
        for x in following:
            if row.stop_reason or row.output_ids != ids[: len(row.output_ids)]:
                break
            row.step(x)
        wrong.append(max(0, len(ids) - 1 - common_length(row.output_ids, ids)))
    batch.rollback(wrong)
    return scores


def generate_and_score(
    model: Any, generations: Sequence[Generation], expected: Sequence[list[int]], **options: Any
) -> Iterator[tuple[list[int], list[float]]]:
    """Run generations to their ends, batch by batch, and score what was expected of each prompt.

    Yields the indices of a batch's generations and the log-likelihoods of ``expected``, 0 for an empty one.
    ``options`` as in ``prefill_shared``.
    """
    longest = max((row.max_tokens for row in generations), default=0) + max(map(len, expected), default=0)
    for rows, batch, logits in prefill_shared(model, generations, longest, **options):
        batch_rows = [generations[i] for i in rows]
        scores = score_and_start(batch, logits, batch_rows, [expected[i] for i in rows])
        for _ in decode(batch, batch_rows):
            pass
        del batch
        yield rows, scores
