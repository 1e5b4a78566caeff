"""Reading and writing with a local model, one step after the other, several texts at a time."""

import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


def bears_gaps(model: Any) -> bool:
    """Whether ids that are masked out may stand between others: not where distances are counted in columns.

    That is so without position ids (MPT's ALiBi), and for a window of the last so many columns ("local" in GPT-Neo).
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    slides = set(kinds) - {"full_attention", "global"} if kinds else getattr(config, "sliding_window", None)
    return "position_ids" in inspect.signature(model.forward).parameters and not slides


class Reading:
    """What a model has read: ``rows`` texts side by side that all begin with what is in ``state``.

    With ``lengths`` each row has read so many ids of its own, and ``state`` is filled up before them.
    """

    def __init__(self, model: Any, state: Any, rows: int = 1, lengths: Sequence[int] = ()) -> None:
        import torch

        self._model = model
        self._state = state
        width = state.get_seq_length()
        masks = [[0] * (width - n) + [1] * n for n in lengths or [width] * rows]
        self._mask = torch.tensor(masks, dtype=torch.long, device=model.device).reshape(len(masks), width)

    def read(self, rows: list[list[int]], keep: int = 1) -> Any:
        """Read on, a list of token ids a row; the logits at the last ``keep`` ids, (rows, keep, vocabulary).

        Shorter lists are filled up on the left with ids that are masked out, so all rows end together.
        """
        import torch

        width = max(map(len, rows))
        device = self._model.device
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
        self._mask = torch.cat([self._mask, mask], dim=1)
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        with torch.inference_mode():
            return self._model(
                input_ids=ids,
                attention_mask=self._mask,
                position_ids=positions,
                cache=self._state,
                logits_to_keep=keep,
            ).logits

    def forget(self, counts: Sequence[int]) -> None:
        """Each row goes back to before its last so many ids: they stay in the state, and are masked out."""
        for row, count in enumerate(counts):
            self._mask[row, self._mask.shape[1] - count :] = 0

    def keep_rows(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        import torch

        with torch.inference_mode():
            self._state.batch_select_indices(rows)
        self._mask = self._mask[rows]


@dataclass
class Writing:
    """One answer as it is written. ``reason`` is empty until it ends; ``unread`` are the ids to be read next.

    ``text`` starts with ``beginning``, whose ids are decoded along (``lead``), since some decoders look back.
    """

    tokenizer: Any
    ends: set[int]
    unread: list[int]
    lead: list[int]
    beginning: str
    max_tokens: int
    temperature: float
    stop: tuple[str, ...]
    generator: Any
    written: list[int] = field(default_factory=list)
    text: str = ""
    reason: str = ""
    sent: int = 0

    def __post_init__(self) -> None:
        self.text = self.beginning

    def step(self, logits: Any) -> None:
        """Write the next token, given its logits (vocabulary,)."""
        token = choose(logits, self.temperature, self.generator)
        if token in self.ends:
            self.reason = "end_turn"
            return
        self.written.append(token)
        self.unread = [token]
        self.text = self.beginning + self._decode(self.lead + self.written)[len(self._decode(self.lead)) :]
        stops = [at for mark in self.stop if (at := self.text.find(mark, len(self.beginning))) >= 0]
        if stops:
            self.text, self.reason = self.text[: min(stops)], "stop_sequence"
        elif len(self.written) == self.max_tokens:
            self.text, self.reason = self.text.rstrip("\ufffd"), "max_tokens"  # no rest of a character will come

    def piece(self) -> str:
        """What has been settled of the text since the last call."""
        held = 0 if self.reason else unsettled(self.text[len(self.beginning) :], self.stop)
        start, self.sent = self.sent, max(self.sent, len(self.text) - held)
        return self.text[start : self.sent]

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def batches(
    rows: Sequence[tuple[list[int], list[int]]], room: int, batch_size: int, more: int = 0
) -> Iterator[tuple[list[int], list[int]]]:
    """Prefixes, each with the numbers of at most ``batch_size`` of the rows (prefix, unread) that have it.

    Rows of like length come together; fewer of them where side by side, with ``more`` to follow each, they would have
    more than ``room`` ids.
    """
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], -len(rows[i][1])))
    for prefix, group in itertools.groupby(order, key=lambda i: rows[i][0]):
        same = list(group)
        while same:
            size = max(1, min(batch_size, room // (len(prefix) + len(rows[same[0]][1]) + more)))
            yield prefix, same[:size]
            same = same[size:]


def choose(logits: Any, temperature: float, generator: Any) -> int:
    """The likeliest token at temperature 0, else one drawn from ``softmax(logits / temperature)``."""
    import torch

    if temperature == 0:
        return int(logits.argmax())
    chances = torch.softmax(logits.float().cpu() / temperature, dim=-1)
    return int(torch.multinomial(chances, 1, generator=generator))


def unsettled(text: str, stop: tuple[str, ...]) -> int:
    """How many characters at the end may still change or go: a character half read, a stop text half written."""
    partial = len(text) - len(text.rstrip("\ufffd"))
    begun = (n for mark in stop for n in range(1, len(mark)) if text.endswith(mark[:n]))
    return max(partial, *begun, 0)
