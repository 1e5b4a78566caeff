"""The checks of notebook 02's exercises. Each returns None if the attempt is right, else a hint."""

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rag_lab.models.late_chunking import Tokens, macro_windows

# Exercise 2: spans counted in the text's own tokens. The model puts [CLS] before them and [SEP] after them.
OWN_TOKENS, OWN_SPANS = 9, [(0, 3), (3, 5), (5, 9)]

# Exercise 3: tokens with their characters, and chunks whose ends ignore the tokens.
TOKEN_OFFSETS = [("late", 0, 4), ("chunk", 5, 10), ("##ing", 10, 13), ("pools", 14, 19), ("tokens", 20, 26)]
CHUNK_RANGES = [(0, 8), (8, 16), (16, 26)]

# Exercise 4: tokens per document, [CLS] and [SEP] included.
DOCUMENT_TOKENS = (512, 513, 894, 895)


def check_pool(attempt: Callable[[np.ndarray, list[tuple[int, int]]], Any]) -> str | None:
    """``attempt(vectors, spans)``: the mean of each span's rows, each mean at length 1."""
    vectors, spans = np.array([[4.0, 0.0], [2.0, 2.0], [0.0, 1.0], [0.0, 3.0]]), [(0, 2), (2, 4)]
    pooled = np.asarray(attempt(vectors.copy(), spans), dtype=float)
    if pooled.shape != (2, 2):
        return f"two spans of vectors with two numbers give an array of shape (2, 2), not {pooled.shape}"
    means = vectors.reshape(2, 2, 2).mean(axis=1)  # [3, 1] and [0, 2]
    if np.allclose(pooled, means):
        return "the means are right; now divide each by its own length"
    if np.allclose(pooled, _unit(_unit(vectors).reshape(2, 2, 2).mean(axis=1))):
        return "a token's vector counts with the length that the model gave it: take the mean first, then divide"
    if np.allclose(pooled, _unit(means)):
        return None
    return "the first span's mean is [3, 1], and a span (first, last) ends before last"


def check_special_tokens(attempt: Sequence[tuple[int, int]]) -> str | None:
    """``OWN_SPANS`` as rows of the model's output: all one row later, the first with [CLS], the last with [SEP]."""
    spans = [tuple(span) for span in attempt]
    shifted = [(first + 1, last + 1) for first, last in OWN_SPANS]
    if spans == [(0, shifted[0][1]), *shifted[1:-1], (shifted[-1][0], OWN_TOKENS + 2)]:
        return None
    if spans == OWN_SPANS:
        return "row 0 of the output is [CLS]: these spans pool every chunk one token too early"
    if spans == shifted:
        return "every chunk has its own tokens now; two rows are pooled nowhere, [CLS] and [SEP]"
    return f"the output has {OWN_TOKENS + 2} rows; the text's first token is row 1; every row belongs to one chunk"


def check_straddling(attempt: Sequence[int]) -> str | None:
    """For each of ``TOKEN_OFFSETS`` the chunk that holds its first character."""
    if len(attempt) != len(TOKEN_OFFSETS):
        return f"give one chunk number for each of the {len(TOKEN_OFFSETS)} tokens"
    for given, (token, first, _) in zip(attempt, TOKEN_OFFSETS, strict=True):
        if given != bisect.bisect_right(CHUNK_RANGES, first, key=lambda chunk: chunk[0]) - 1:
            return f"look at {token!r}: which chunk holds character {first}, its first?"
    return None


def check_windows(attempt: Mapping[int, int], window: int, overlap: int) -> str | None:
    """For each of ``DOCUMENT_TOKENS`` the number of macro windows; [CLS] and [SEP] are in each of them."""
    if set(attempt) != set(DOCUMENT_TOKENS):
        return f"give a number for each of {', '.join(map(str, DOCUMENT_TOKENS))}"
    for count in DOCUMENT_TOKENS:
        if attempt[count] in (None, ...):
            return f"no number yet for {count} tokens"
        tokens = Tokens([0] * count, [], prefix_tokens=1, suffix_tokens=1)
        if attempt[count] != len(macro_windows(tokens, window, overlap)):
            new = window - 2 - overlap
            return f"{count} tokens: the first window takes {window - 2} of the text's, each further one {new} new"
    return None


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
