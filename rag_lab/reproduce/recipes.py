"""The published rows that can be reproduced: ``data/published/recipes.yaml``.

To add a row: put the published figures into ``data/published/numbers.yaml``, write a function that takes ``Models``
and returns a list of ``Comparison`` (``retrieval.bm25_scifact`` is a short one), and name it in ``recipes.yaml``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from rag_lab import datasets, results, settings
from rag_lab.models.hub import BUNDLED
from rag_lab.reproduce import arithmetic, positions, retrieval
from rag_lab.reproduce.models import Models
from rag_lab.reproduce.retrieval import JINA_3
from rag_lab.results import Comparison

KINDS = ("encoder", "llm", "reranker")
NONE = Models()


@dataclass(frozen=True)
class Recipe:
    """One published row: what runs, with which models and data, and how it differs from what was published."""

    id: str  # of the record, data/results/ID.json
    title: str  # in the table; "(%)" if the figures are percentages
    run: Callable[[Models], list[Comparison]]
    published_id: str = ""  # in the registry, if it is not ``id``
    paper: tuple[Models, ...] = (NONE,)  # the paper's or the nearest available; the first is used by default
    offline: Models | None = NONE  # the bundled models; None if they cannot run the row
    data: tuple[str, ...] = ()  # names in ``datasets.DOWNLOADS``
    file: str = ""  # the paper's own file, used if a data folder has it
    bundled_read_file: bool = True  # whether the bundled models can read that file
    substitute: str = ""  # what replaces that file if no data folder has it
    minutes: tuple[float, float] = (1, 1)  # on 2 cores: with the paper's models, with the bundled ones
    differs: str = ""  # how it differs from the publication even with the paper's models
    offline_differs: str = "another model"  # what the bundled models change
    has_questions: bool = True  # whether a sample of them can be drawn
    figures: tuple[str, ...] = ()  # keys that lead to the published values that are shown until the row is recorded

    @property
    def published(self) -> results.Published:
        """The registry's entry."""
        return results.published(self.published_id or self.id)

    @property
    def options(self) -> set[str]:
        """The fields of ``Models`` that the command line may change for this row."""
        named = [models for models in (*self.paper, self.offline) if models]
        kinds = {kind for kind in KINDS if any(getattr(models, kind) for models in named)}
        return kinds | {"allow_remote_code"} | ({"sample"} if self.has_questions else set())

    @property
    def requirement(self) -> str:
        """What the row needs before the table can show it."""
        if self.offline is None:
            return f"{', '.join(self.paper[0].names)} from the hub"
        fetch = f"`fetch {' '.join(self.data)}` and " if self.data else ""
        return f"a run: {fetch}`reproduce {self.id} --offline`"

    def paper_file(self, models: Models) -> str:
        """The name of the paper's own file that these models read; "" if there is none."""
        return "" if models.llm in BUNDLED and not self.bundled_read_file else self.file

    def placed_file(self, models: Models) -> Path | None:
        """The paper's own file, if a data folder has it."""
        name = self.paper_file(models)
        return datasets.placed(name) if name else None

    def because(self, models: Models) -> str:
        """Why a run with these models is not comparable with what was published; "" if it is."""
        substituted = self.paper_file(models) and not self.placed_file(models)
        reasons = [
            self.differs,
            self.substitute if substituted else "",
            "base weights without the task adapter" if models.encoder == JINA_3 else "",
            self._other_models(models),
            "a sample" if models.sample else "",
        ]
        return ", ".join(reason for reason in reasons if reason)

    def _other_models(self, models: Models) -> str:
        def names(which: Models) -> list[str]:
            return [getattr(which, kind) for kind in KINDS]

        if names(models) in map(names, self.paper):
            return ""
        bundled = names(self.offline) if self.offline else names(self.paper[0])
        chosen = zip(names(models), names(self.paper[0]), bundled, strict=True)
        return self.offline_differs if any(own == ours != paper for own, paper, ours in chosen) else "another model"


def load_recipes() -> tuple[Recipe, ...]:
    """The recipes of ``recipes.yaml``. Raises TypeError if one has a key that is no field of Recipe."""
    functions = {module.__name__.rpartition(".")[2]: module for module in (arithmetic, positions, retrieval)}
    recipes = []
    for entry in yaml.safe_load((settings.DATA / "published" / "recipes.yaml").read_text(encoding="utf-8")):
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
        module, function = fields["run"].split(".")
        fields["run"] = partial(getattr(functions[module], function), **fields.pop("parameters", {}))
        fields["paper"] = tuple(Models(**models) for models in fields.get("paper", [{}]))
        if fields.get("offline"):
            fields["offline"] = Models(**fields["offline"])
        recipes.append(Recipe(**fields))
    return tuple(recipes)


RECIPES = load_recipes()
