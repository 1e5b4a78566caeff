"""Tokens, the characters they came from, and which of them belong to which chunk or window: pure bookkeeping."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_lab.types import Chunk

TokenRange = tuple[int, int, int]  # row of a chunk, its first token, the token after its last


@dataclass(frozen=True)
class Tokens:
    """A tokenised text: ``head`` tokens of [CLS] and prefix, the text's own, ``tail`` tokens of [SEP].

    ``offsets`` holds each token's character range in the text, empty for head and tail.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    head: int
    tail: int

    def cut(self, limit: int) -> list[int]:
        """The ids, without the end of the text's own where they are more than ``limit``; the tail stays."""
        if len(self.ids) <= limit:
            return self.ids
        end = len(self.ids) - self.tail
        return self.ids[: max(limit - self.tail, 0)] + self.ids[end:]


def split_encoding(encoding: Any, prefix: int) -> Tokens:
    """Tell head, own tokens and tail of a ``tokenizers.Encoding`` of a text after ``prefix`` characters of prefix."""
    special, count = encoding.special_tokens_mask, len(encoding.ids)
    tail = next((i for i in range(count) if not special[count - 1 - i]), 0)
    head = 0
    while head < count - tail and (special[head] or (prefix and encoding.offsets[head][1] <= prefix)):
        head += 1
    if head == count - tail and all(special):
        # Nothing but special tokens: the text is empty or was dropped by the normaliser.
        head, tail = (1, count - 1) if count > 1 else (count, 0)
    length = max((end for _, end in encoding.offsets), default=prefix) - prefix
    own = [(max(start - prefix, 0), max(end - prefix, 0)) for start, end in encoding.offsets[head : count - tail]]
    offsets = [(0, 0)] * head + own + [(max(length, 0),) * 2] * tail
    return Tokens(encoding.ids, offsets, head, tail)


def chunk_token_ranges(text: str, tokens: Tokens, chunks: Sequence[Chunk]) -> list[TokenRange]:
    """Which tokens each chunk pools; a chunk without a token of its own has no span.

    A token belongs to every chunk that holds its first character that is not white space. The head belongs to the
    first chunk, the tail to the last (Günther et al. 2024, section 3).
    """
    end = len(tokens.ids) - tokens.tail
    anchors = [_first_visible(text, start, stop) for start, stop in tokens.offsets[tokens.head : end]]
    positions = np.maximum.accumulate(np.array(anchors, np.int64))
    spans = []
    for row, chunk in enumerate(chunks):
        first, last = (np.searchsorted(positions, (chunk.start, chunk.end)) + tokens.head).tolist()
        if first < last:
            spans.append((row, first, last))
    if spans:
        opening = min(spans, key=lambda span: span[1])[0]
        closing = max(spans, key=lambda span: span[2])[0]
        spans += [(opening, 0, tokens.head), (closing, end, len(tokens.ids))]
    return spans


def _first_visible(text: str, start: int, end: int) -> int:
    """A byte-level token often begins with the space before its word, which may still be the chunk before."""
    while start < end - 1 and text[start].isspace():
        start += 1
    return start


@dataclass(frozen=True)
class Window:
    """One input of the model, and which of its vectors count: row ``first`` is token ``token`` of the text."""

    ids: list[int]
    first: int
    last: int
    token: int


def macro_windows(tokens: Tokens, size: int, overlap: int) -> list[Window]:
    """Cut a text into evenly spread windows of ``size`` tokens that share at least ``overlap``; one if it fits.

    Every token counts in exactly one window: the one that gives it more context on its poorer side, which is the
    nearer half of what two neighbours share. Head and tail are in every window's input and count in the first and
    last.
    """
    count = len(tokens.ids)
    if count <= size:
        return [Window(tokens.ids, 0, count, 0)]
    head, tail = tokens.head, tokens.tail
    body, room = tokens.ids[head : count - tail], size - head - tail
    number = math.ceil((len(body) - overlap) / (room - overlap))
    starts = [round(i * (len(body) - room) / (number - 1)) for i in range(number)]
    bounds = [0, *((left + room + right) // 2 for left, right in itertools.pairwise(starts)), len(body)]
    windows = []
    for i, start in enumerate(starts):
        ids = tokens.ids[:head] + body[start : start + room] + tokens.ids[count - tail :]
        first = 0 if i == 0 else head + bounds[i] - start
        last = len(ids) if i == number - 1 else head + bounds[i + 1] - start
        windows.append(Window(ids, first, last, 0 if i == 0 else head + bounds[i]))
    return windows
