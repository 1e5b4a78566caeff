"""``python -m rag_lab reproduce``: runs a published row, records it, and puts it beside the published figures."""

import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_lab import downloads, papers
from rag_lab.papers import Comparison, published, verdict
from rag_lab.reproduce_models import missing
from rag_lab.reproduce_rows import RECIPES, Recipe

BY_ID = {recipe.id: recipe for recipe in RECIPES}


@dataclass(frozen=True)
class Waiting(Exception):  # noqa: N818
    """A row that cannot run now, with what it waits for."""

    id: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.id} waits for {'; '.join(self.reasons)}"


def command(id_: str, offline: bool = False, fresh: bool = False, chosen: dict[str, Any] | None = None) -> int:
    """Run ``id_`` (an id, ``all``, or ``list``): 0 done, 1 a named row that has to wait.

    ``offline``: the bundled models. ``chosen``: fields of ``Models`` that take the place of the row's own. ``all``
    passes over rows that are recorded by the same command, models and data, unless ``fresh``, and says what the
    others wait for. ValueError for an unknown id.
    """
    if id_ == "list":
        for recipe in RECIPES:
            print(needs(recipe, offline))
        return 0
    if id_ == "all":
        for recipe in RECIPES:
            try:
                reproduce(recipe, offline, fresh, chosen)
            except Waiting as waiting:
                print(f"{waiting}\n")
        print(table())
        return 0
    if id_ not in BY_ID:
        raise ValueError(f"there is no row {id_!r}; there are all, list, {', '.join(BY_ID)}.")
    try:
        reproduce(BY_ID[id_], offline, True, chosen)
    except Waiting as waiting:
        print(waiting, file=sys.stderr)
        return 1
    return 0


def needs(recipe: Recipe, offline: bool, chosen: dict[str, Any] | None = None) -> str:
    """One paragraph: the published claim, and the data, models, minutes and dollars that the row takes.

    Minutes and dollars are those of the row's own models, whatever is ``chosen``.
    """
    paper = published(recipe.published)
    models = recipe.offline if offline else recipe.paper
    lines = [f"{recipe.id}: {recipe.title} ({paper.source['title']}, {paper.source['table']})"]
    lines.append(f"  data: {', '.join(recipe.data) or 'none'}")
    if models is None:
        return "\n".join([*lines, f"  offline: waits for {recipe.waits_for}"])
    lines.append(f"  models: {', '.join(replace(models, **(chosen or {})).named) or 'none'}")
    minutes = recipe.offline_minutes if offline else recipe.minutes
    dollars = 0.0 if offline else recipe.dollars
    lines.append(f"  about {minutes:g} minute{'' if minutes == 1 else 's'}, ${dollars:.2f}")
    return "\n".join(lines)


def reproduce(
    recipe: Recipe, offline: bool = False, fresh: bool = True, chosen: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Say what the row needs, run it, write ``data/results/ID.json`` and print its line; the recorded result.

    Raises Waiting where data or a model cannot be had.
    """
    print(needs(recipe, offline, chosen), flush=True)
    models = recipe.offline if offline else recipe.paper
    if models is None:
        raise Waiting(recipe.id, (recipe.waits_for,))
    models = replace(models, **(chosen or {}))
    reasons = missing(models)
    files: list[Path] = []
    try:
        files = _data(recipe, offline)
    except OSError as error:
        reasons.append(str(error))
    if reasons:
        raise Waiting(recipe.id, tuple(reasons))
    described, sha256 = models.described(), papers.digest(files)
    command_line = _command_line(recipe, offline, chosen)
    same = {"model": described, "sha256": sha256, "command": command_line}
    if not fresh and (recorded := _recorded(recipe, same)):
        print(f"  recorded on {recorded['provenance']['date']}\n")
        return recorded
    began = time.perf_counter()
    comparisons = recipe.run(models)
    papers.write_result(
        recipe.id,
        [_row(one, recipe.because(models)) for one in comparisons],
        model=described,
        data=", ".join(recipe.data) or "none",
        sha256=sha256,
        command=command_line,
        seconds=time.perf_counter() - began,
    )
    result = papers.load_result(recipe.id)
    print("  " + " | ".join(line(recipe, result)) + "\n", flush=True)
    return result


def _data(recipe: Recipe, offline: bool) -> list[Path]:
    """The files of the row's data sets; those that are nowhere are downloaded, unless ``offline``."""
    get = downloads.files_of if offline else downloads.fetch
    return [path for name in recipe.data for path in get(name)]


def _recorded(recipe: Recipe, same: dict[str, str]) -> dict[str, Any] | None:
    try:
        result = papers.load_result(recipe.id)
    except FileNotFoundError:
        return None
    return result if same.items() <= result["provenance"].items() else None


def _row(one: Comparison, because: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": one.name, "published": one.published}
    fields |= papers.interval_fields(one.measured)
    if one.published is not None:
        fields["difference"] = round(one.measured.value - one.published, 5)
        fields["verdict"] = verdict(one, because)
    return fields | {"shown": one.shown}


def _command_line(recipe: Recipe, offline: bool, chosen: dict[str, Any] | None) -> str:
    options = ["--offline"] if offline else []
    for name, value in (chosen or {}).items():
        options.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join(["python -m rag_lab reproduce", recipe.id, *options])


def line(recipe: Recipe, result: dict[str, Any]) -> list[str]:
    """The table's cells: row, published, measured, difference, verdict."""
    shown = [row for row in result["rows"] if row["shown"] and row["published"] is not None]
    paper = published(recipe.published)
    signed = "+" if any("−" in row["name"] for row in shown) else ""
    return [
        f"{recipe.title}: {', '.join(row['name'] for row in shown)}",
        f"{', '.join(_number(row['published'], signed) for row in shown)} ({paper.read})",
        ", ".join(_measured(row, signed) for row in shown),
        ", ".join(_number(row["difference"], "+") for row in shown),
        _summary([row["verdict"] for row in shown]),
    ]


def _summary(verdicts: list[str]) -> str:
    """``same direction (2 of 3), not comparable (1 of 3): another model``; the reason is one for the whole row."""
    parted = [re.split("[;:] ", one, maxsplit=1) for one in verdicts]
    kinds = [parts[0] for parts in parted]
    reasons = dict.fromkeys(parts[1] for parts in parted if len(parts) > 1)
    counted = [
        kind if kinds.count(kind) == len(kinds) else f"{kind} ({kinds.count(kind)} of {len(kinds)})"
        for kind in dict.fromkeys(kinds)
    ]
    return ": ".join([", ".join(counted), *reasons])


def _measured(row: dict[str, Any], signed: str) -> str:
    value = _number(row["value"], signed)
    if row["n"] == 1:  # computed, or one document
        return value
    return f"{value} [{_number(row['low'])}, {_number(row['high'])}]"


def _number(number: float, sign: str = "") -> str:
    return format(number, f"{sign}.4g" if abs(number) >= 1 else f"{sign}.4f")


def table() -> str:
    """Published beside measured for every row that is recorded, and what the others wait for."""
    rows = []
    for recipe in RECIPES:
        try:
            rows.append(line(recipe, papers.load_result(recipe.id)))
        except FileNotFoundError:
            paper = published(recipe.published)
            waits_for = recipe.waits_for or f"a run: `reproduce {recipe.id} --offline`"
            rows.append([recipe.title, f"see `{paper.id}` ({paper.read})", "", "", f"waits for {waits_for}"])
    return papers.markdown_table(["row", "published", "measured [95%]", "difference", "verdict"], rows)
