"""What a published row needs, what it runs, and why it may not be comparable."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_lab import downloads
from rag_lab.papers import Comparison
from rag_lab.reproduce_models import Models
from rag_lab.reproduce_retrieval import JINA_3

KINDS = ("encoder", "llm", "reranker")
NONE = Models()


@dataclass(frozen=True)
class Recipe:
    """One row. ``paper``: the paper's own models, or the nearest that can still be had; ``offline``: bundled ones.

    ``also`` are further models of the paper, each in place of ``paper``. ``data`` are names in ``DOWNLOADS``;
    ``own_file`` names the paper's own file, read in their place where it was put into a data folder (the name may
    depend on the models), and ``instead`` what stands in for it where it was not. ``differs`` says what is not as
    published even with the paper's models, ``stands_in`` what the bundled ones change; each of the three makes a row
    not comparable. ``waits_for`` names what the row needs where it is not recorded. ``samples``: whether it asks
    questions, of which a sample can be drawn. ``figures`` picks what is shown of the published values until the row
    is recorded. Minutes are about those of 2 cores.
    """

    id: str
    title: str
    published: str
    run: Callable[[Models], list[Comparison]]
    paper: Models = NONE
    offline: Models | None = NONE
    also: tuple[Models, ...] = ()
    data: tuple[str, ...] = ()
    own_file: Callable[[Models], str] = lambda models: ""
    instead: str = ""
    minutes: float = 1
    offline_minutes: float = 1
    dollars: float = 0.0
    differs: str = ""
    stands_in: str = ""
    waits_for: str = ""
    samples: bool = True
    figures: Callable[[dict[str, Any]], dict[str, Any]] = dict

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which of ``KINDS`` the row uses with the models that it names."""
        named = [models for models in (self.paper, self.offline, *self.also) if models]
        return tuple(kind for kind in KINDS if any(getattr(models, kind) for models in named))

    def placed(self, models: Models) -> Path | None:
        """The paper's own file where a data folder has it."""
        name = self.own_file(models)
        return downloads.placed(name) if name else None

    def because(self, models: Models) -> str:
        """Why a run with these models cannot be compared; "" where it can."""
        instead = self.instead if self.own_file(models) and not self.placed(models) else ""
        adapter = "base weights without the task adapter" if models.encoder == JINA_3 else ""
        sample = "a sample" if models.sample else ""
        reasons = [self.differs, instead, adapter, self._another(models), sample]
        return ", ".join(reason for reason in reasons if reason)

    def _another(self, models: Models) -> str:
        """What is said of models that are not the paper's; ``stands_in`` where a bundled one is among them."""

        def others(wanted: Models) -> list[str]:
            return [kind for kind in KINDS if getattr(models, kind) != getattr(wanted, kind)]

        if not all(others(wanted) for wanted in (self.paper, *self.also)):
            return ""
        bundled = self.offline and set(others(self.paper)) - set(others(self.offline))
        return self.stands_in if bundled and self.stands_in else "another model"
