"""TEST DOUBLE: a model that is right as often as a given curve says, by the position of the gold in the prompt."""

import random
from collections.abc import Iterator, Mapping, Sequence

from rag_lab.llm.prompt import Completion, Prompt, Usage


class CurveReader:
    """Gives the gold answer with the chance of its position; ``asked`` counts the prompts."""

    name = identity = "stub"
    dtype = "none"
    log_likelihoods = complete_groups = None  # not used; their names say that this is a ScoringModel

    def __init__(self, chances: Mapping[int, float], separator: str = "\n") -> None:
        self.chances = chances
        self.separator = separator
        self.asked = 0

    def generate_and_score(
        self, prompts: Sequence[Prompt], expected: Sequence[str], max_tokens: int = 64, stop: Sequence[str] = ()
    ) -> Iterator[tuple[int, Completion, float]]:
        """In reverse order, since a real model too answers out of order."""
        for i in reversed(range(len(prompts))):
            self.asked += 1
            pieces = prompts[i].turns[-1].text.split(self.separator)
            place = next(j for j, piece in enumerate(pieces) if expected[i] in piece)
            right = random.Random(prompts[i].turns[-1].text).random() < self.chances[place]
            yield i, Completion(expected[i] if right else "I see.", Usage(), "end_turn"), -5 + 4 * self.chances[place]
