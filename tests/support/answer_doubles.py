"""TEST DOUBLES for answers: a retriever of given passages, and a model that writes what the test scripted."""

from collections.abc import Sequence
from typing import Any

from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Completion, Prompt, Stream, Usage
from rag_lab.types import Chunk, Hit, Retriever

DOGS = "Dogs are allowed in the office on Fridays. They need a badge."
PARKING = "Parking costs 5 euros a day."


def retriever(*texts: str, scores: Sequence[float] = ()) -> Retriever:
    """Finds the texts, in order, with the scores given (else 1, 1/2, 1/3 …)."""
    hits = [
        Hit(Chunk(f"doc{i}", 0, text, 0, len(text), title="Handbook"), scores[i] if scores else 1 / (i + 1), i + 1)
        for i, text in enumerate(texts)
    ]
    return lambda question, k: hits[:k]


class Scripted:
    """Writes ``texts`` in turn; an exception among them is raised. A token is a word of the prompt."""

    name = identity = "scripted"
    dtype = ""
    thinking_tokens = 0
    paid = enforces_schema = needs_prefill = False

    def __init__(self, *texts: str | Exception, window: int = 2_000, stop_reason: str = "end_turn") -> None:
        self.texts = list(texts)
        self.window = window
        self.stop_reason = stop_reason
        self.prompts: list[Prompt] = []
        self.schemas: list[Any] = []

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        return sum(len(block.text.split()) for part in (prompt, *prompt.turns) for block in blocks(part))

    def complete(self, prompt: Prompt, max_tokens: int = 256, schema: Any = None) -> Completion:
        self.prompts.append(prompt)
        self.schemas.append(schema)
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return Completion(text, Usage(input_tokens=10, output_tokens=2, seconds=0.5), self.stop_reason)

    def complete_many(self, prompts: Sequence[Prompt], max_tokens: int = 256) -> list[Completion | CallFailed]:
        """A CallFailed among the texts is returned, as by a real model."""
        return [self._outcome(prompt, max_tokens) for prompt in prompts]

    def _outcome(self, prompt: Prompt, max_tokens: int) -> Completion | CallFailed:
        try:
            return self.complete(prompt, max_tokens)
        except CallFailed as failure:
            return failure

    def stream(self, prompt: Prompt, max_tokens: int = 256) -> Stream:
        """Three characters at a time; an exception after the text that stands before it."""
        self.prompts.append(prompt)
        text = ""
        for part in self.texts:
            if isinstance(part, Exception):
                raise part
            text += part
            yield from (part[i : i + 3] for i in range(0, len(part), 3))
        return Completion(text, Usage(input_tokens=10, output_tokens=2, seconds=0.5), self.stop_reason)


def blocks(part: Any) -> Sequence[Any]:
    """The blocks of a turn, or a prompt's system blocks."""
    return part.system if isinstance(part, Prompt) else part.blocks


def never(*args: Any) -> Any:
    """A call that must not be made."""
    raise AssertionError("no model is to be called here")
