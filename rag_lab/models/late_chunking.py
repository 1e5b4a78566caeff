"""Tokens, the characters they come from, and the chunks and windows they belong to."""

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
    """A tokenised text: ``prefix_tokens`` of [CLS] and prefix, the text's own, ``suffix_tokens`` of [SEP].

    ``offsets`` are the tokens' character ranges in the text, empty for those that are not the text's own.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    prefix_tokens: int
    suffix_tokens: int

    def truncated(self, limit: int) -> list[int]:
        """At most ``limit`` ids: the text's own lose their end, the suffix stays."""
        if len(self.ids) <= limit:
            return self.ids
        return self.ids[: max(limit - self.suffix_tokens, 0)] + self.ids[len(self.ids) - self.suffix_tokens :]


def split_encoding(encoding: Any, prefix: int) -> Tokens:
    """Find prefix, own tokens and suffix in a ``tokenizers.Encoding`` of a text after ``prefix`` characters."""
    special, count = encoding.special_tokens_mask, len(encoding.ids)
    suffix_tokens = next((i for i in range(count) if not special[count - 1 - i]), 0)
    prefix_tokens = 0
    end = count - suffix_tokens
    while prefix_tokens < end and (
        special[prefix_tokens] or (prefix and encoding.offsets[prefix_tokens][1] <= prefix)
    ):
        prefix_tokens += 1
    if prefix_tokens == end and all(special):
        # Only special tokens: the text is empty, or the normaliser dropped it.
        prefix_tokens, suffix_tokens = (1, count - 1) if count > 1 else (count, 0)
    length = max((stop for _, stop in encoding.offsets), default=prefix) - prefix
    own = encoding.offsets[prefix_tokens : count - suffix_tokens]
    offsets = [(0, 0)] * prefix_tokens
    offsets += [(max(start - prefix, 0), max(stop - prefix, 0)) for start, stop in own]
    offsets += [(max(length, 0),) * 2] * suffix_tokens
    return Tokens(encoding.ids, offsets, prefix_tokens, suffix_tokens)


def chunk_token_ranges(text: str, tokens: Tokens, chunks: Sequence[Chunk]) -> list[TokenRange]:
    """The tokens that each chunk pools; a chunk without a token of its own has no range.

    A token belongs to every chunk that contains its first character other than white space. The prefix belongs to
    the first chunk, the suffix to the last (Günther et al. 2024, section 3).
    """
    end = len(tokens.ids) - tokens.suffix_tokens
    anchors = [_first_visible(text, start, stop) for start, stop in tokens.offsets[tokens.prefix_tokens : end]]
    positions = np.maximum.accumulate(np.array(anchors, np.int64))
    ranges = []
    for row, chunk in enumerate(chunks):
        first, last = (np.searchsorted(positions, (chunk.start, chunk.end)) + tokens.prefix_tokens).tolist()
        if first < last:
            ranges.append((row, first, last))
    if ranges:
        opening = min(ranges, key=lambda found: found[1])[0]
        closing = max(ranges, key=lambda found: found[2])[0]
        ranges += [(opening, 0, tokens.prefix_tokens), (closing, end, len(tokens.ids))]
    return ranges


def _first_visible(text: str, start: int, end: int) -> int:
    """A byte-level token often starts with the space before its word, which may belong to the chunk before."""
    while start < end - 1 and text[start].isspace():
        start += 1
    return start


@dataclass(frozen=True)
class Window:
    """One input of the model. Its vectors ``pool_start`` to ``pool_end`` count; the first is the text's token
    ``text_offset``.
    """

    ids: list[int]
    pool_start: int
    pool_end: int
    text_offset: int


def macro_windows(tokens: Tokens, size: int, overlap: int) -> list[Window]:
    """Evenly spread windows of ``size`` tokens that share at least ``overlap``; one if the text fits.

    Each token counts in one window: the one that gives it more context on its poorer side, which is the nearer half
    of what two neighbours share. Prefix and suffix are in every input and count in the first and the last window.
    """
    count, prefix, suffix = len(tokens.ids), tokens.prefix_tokens, tokens.suffix_tokens
    if count <= size:
        return [Window(tokens.ids, 0, count, 0)]
    body, capacity = tokens.ids[prefix : count - suffix], size - prefix - suffix
    number = math.ceil((len(body) - overlap) / (capacity - overlap))
    starts = [round(i * (len(body) - capacity) / (number - 1)) for i in range(number)]
    bounds = [0, *((left + capacity + right) // 2 for left, right in itertools.pairwise(starts)), len(body)]
    windows = []
    for i, start in enumerate(starts):
        ids = tokens.ids[:prefix] + body[start : start + capacity] + tokens.ids[count - suffix :]
        pool_start = prefix + bounds[i] - start if i else 0
        pool_end = len(ids) if i == number - 1 else prefix + bounds[i + 1] - start
        windows.append(Window(ids, pool_start, pool_end, prefix + bounds[i] if i else 0))
    return windows
