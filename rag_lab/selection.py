"""What a step between retrieval and prompt kept of the passages, what it dropped, and why."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rag_lab.documents import Chunk
from rag_lab.segments import Span


@dataclass(frozen=True)
class Dropped:
    """A passage that was left out: by which step (``filter``, ``extract``, ``budget`` …) and why."""

    chunk: Chunk
    step: str
    reason: str


@dataclass(frozen=True)
class Selection:
    """What a step kept, in the order it came, what it dropped, and the tokens before and after.

    ``refused``: what a model returned that its passage does not hold.
    """

    chunks: tuple[Chunk, ...]
    dropped: tuple[Dropped, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    refused: tuple[str, ...] = ()

    @property
    def tokens_saved(self) -> int:
        """Tokens that the step took away."""
        return self.tokens_before - self.tokens_after


def pieces(chunk: Chunk, spans: Iterable[Span]) -> list[Chunk]:
    """The ranges of ``chunk.text`` as chunks of their own, joined where only white space lies between two.

    Each is still ``document.text[start:end]``, without white space around it, and keeps the chunk's index and so its
    id; blank ranges give none.
    """
    text = chunk.text
    joined: list[list[int]] = []
    for start, end in sorted(spans):
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    found = []
    for start, end in joined:
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        if piece := piece.strip():
            begin = chunk.start + start
            found.append(replace(chunk, text=piece, start=begin, end=begin + len(piece)))
    return found
