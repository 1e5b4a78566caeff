"""The interface of every language model: ``LocalLLM``, ``ClaudeLLM``, or a class of your own with these members."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeGuard, Unpack

from rag_lab.llm.prompt import Completion, Prompt, Stream

if TYPE_CHECKING:
    from rag_lab.llm.pricing import Estimate

Schema = Mapping[str, Any] | None  # a JSON schema


class Sampling(TypedDict, total=False):
    """Options of a completion. The answer ends before the first of the ``stop`` texts."""

    temperature: float  # default 0.0
    schema: Schema  # default None
    stop: Sequence[str]  # default ()


class CallFailed(RuntimeError):  # noqa: N818
    """One call failed, for the reason in its message; other calls may work. It is never an answer."""


class LanguageModel(Protocol):
    """What the rest of the package uses of a language model. See ``LocalLLM`` and ``ClaudeLLM`` for the errors."""

    dtype: str  # the precision of the weights; "" if unknown
    window: int  # the most tokens that prompt and answer may have together
    thinking_tokens: int  # that the model may think on top of ``max_tokens``; they count towards the window
    paid: bool  # whether calls cost money. They are then estimated, capped and recorded
    enforces_schema: bool  # whether answers always follow a JSON schema. If not, the prompt only describes it
    needs_prefill: (
        bool  # whether the model is small: its answers are more useful if the prompt holds their first words
    )

    @property
    def name(self) -> str:
        """The name that results show."""

    @property
    def identity(self) -> str:
        """What results are stored under, together with ``dtype``: the same weights have the same identity."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a text on its own."""

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of a prompt as the model reads it."""

    def complete(self, prompt: Prompt, max_tokens: int = 256, **sampling: Unpack[Sampling]) -> Completion:
        """The answer to ``prompt``, its prefill included."""

    def stream(self, prompt: Prompt, max_tokens: int = 256, **sampling: Unpack[Sampling]) -> Stream:
        """``complete`` in pieces, which make up the text; the generator returns the Completion."""

    def complete_many(
        self, prompts: Sequence[Prompt], max_tokens: int = 256, **sampling: Unpack[Sampling]
    ) -> Sequence[Completion | CallFailed]:
        """``complete`` for each prompt, in order; a call that failed leaves its CallFailed."""

    def complete_groups(
        self, groups: Sequence[Sequence[Prompt]], max_tokens: int = 256, **sampling: Unpack[Sampling]
    ) -> Sequence[Sequence[Completion | CallFailed]]:
        """``complete_many`` for groups of prompts that share a cached prefix, which is paid or prefilled once."""


class ScoringModel(LanguageModel, Protocol):
    """A language model that also gives likelihoods: ``LocalLLM``. The Messages API has none."""

    def log_likelihoods(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], batch_size: int = 8
    ) -> list[float]:
        """For each prompt the log-probability of its continuation in nats."""

    def generate_and_score(
        self, prompts: Sequence[Prompt], expected: Sequence[str], max_tokens: int = 64, stop: Sequence[str] = ()
    ) -> Iterator[tuple[int, Completion, float]]:
        """Number, completion and log-likelihood of the expected answer, for each prompt, as they are finished."""


class PaidModel(LanguageModel, Protocol):
    """A language model whose calls cost money: ``ClaudeLLM``."""

    def estimate(self, prompts: Sequence[Prompt], max_tokens: int = 256, **sampling: Unpack[Sampling]) -> "Estimate":
        """What the calls would cost if every answer took ``max_tokens``."""


def costs_money(llm: LanguageModel) -> TypeGuard[PaidModel]:
    """Whether ``llm`` is a PaidModel."""
    return llm.paid


def gives_likelihoods(llm: LanguageModel) -> TypeGuard[ScoringModel]:
    """Whether ``llm`` is a ScoringModel."""
    return hasattr(llm, "log_likelihoods")
