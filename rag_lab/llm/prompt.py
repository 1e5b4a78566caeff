"""The input and output of every language model: prompts in blocks, completions, usage."""

import operator
from collections.abc import Generator, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

CacheTTL = Literal["", "5m", "1h"]


@dataclass(frozen=True)
class Block:
    """A piece of a prompt. ``cache`` marks the end of a prefix to cache (for 5 minutes or 1 hour at Claude)."""

    text: str
    cache: CacheTTL = ""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The blocks' texts, concatenated."""
        return "".join(block.text for block in self.blocks)


@dataclass(frozen=True)
class Prompt:
    """System blocks and turns. A last turn by the assistant is a prefill: the model continues it."""

    turns: tuple[Turn, ...]
    system: tuple[Block, ...] = ()

    @classmethod
    def of(
        cls, question: str, system: str = "", history: Sequence[tuple[str, str]] = (), prefill: str = ""
    ) -> "Prompt":
        """A prompt from plain strings; ``history`` holds (role, text) pairs, oldest first.

        Raises ValueError if a role is neither user nor assistant.
        """
        if unknown := [role for role, _ in history if role not in ("user", "assistant")]:
            raise ValueError(f"The role {unknown[0]!r} is unknown; it must be user or assistant.")
        turns = [Turn(role, (Block(text),)) for role, text in history]  # type: ignore[arg-type]
        turns.append(Turn("user", (Block(question),)))
        if prefill:
            turns.append(Turn("assistant", (Block(prefill),)))
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
        return Usage(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Completion:
    """What a model wrote. ``stop_reason``: ``end_turn``, ``max_tokens``, ``refusal`` or ``stop_sequence``.

    ``thinking``: what a reasoning model thought before it; it is no part of ``text``.
    """

    text: str
    usage: Usage
    stop_reason: str
    thinking: str = ""


Stream = Generator[str, None, Completion]


def finish(stream: Stream) -> Completion:
    """Run a model's stream to its end and return its Completion."""
    while True:
        try:
            next(stream)
        except StopIteration as end:
            return end.value
