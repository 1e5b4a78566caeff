"""``python -m rag_lab reproduce``: run a published row, record it, and show it beside the published figures."""

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag_lab import datasets, results, settings
from rag_lab.llm.load import is_paid
from rag_lab.reproduce.models import Models, missing
from rag_lab.reproduce.recipes import KINDS, RECIPES, Recipe
from rag_lab.results import Comparison, verdict
from rag_lab.storage import content_key

SHORT = 7  # a row without a record shows its published figures if there are at most this many
BY_ID = {recipe.id: recipe for recipe in RECIPES}
LITM = "https://github.com/nelson-liu/lost-in-the-middle"


class MissingRequirement(Exception):  # noqa: N818
    """A row cannot run now; the message names what is missing."""


def command(id_: str, offline: bool = False, chosen: dict[str, Any] | None = None) -> int:
    """Run the row ``id_``, ``all`` rows, or ``list`` what they need. Returns 1 if the named row cannot run, else 0.

    ``offline`` uses the bundled models. ``chosen`` are fields of ``Models`` that replace the row's own; ``all`` and
    ``list`` leave out rows that do not use one of them. ``all`` does not repeat what is recorded for the same
    command, models and data, nor, with ``offline``, what is recorded for the paper's models. Raises ValueError if the
    id is unknown or its row does not use an option.
    """
    chosen = chosen or {}
    fitting = [recipe for recipe in RECIPES if chosen.keys() <= recipe.options]
    if id_ == "list":
        print(*(needs(recipe, offline, chosen) for recipe in fitting), sep="\n")
        return 0
    if id_ == "all":
        for recipe in fitting:
            try:
                reproduce(recipe, offline, chosen, repeat=False)
            except MissingRequirement as error:
                print(f"{error}\n")
        print(table())
        return 0
    if id_ not in BY_ID:
        raise ValueError(f"there is no row {id_!r}; there are all, list, {', '.join(BY_ID)}.")
    if unused := chosen.keys() - BY_ID[id_].options:
        uses = ", ".join(f"--{option}" for option in (*KINDS, "sample") if option in BY_ID[id_].options)
        flags = ", ".join(f"--{option}" for option in sorted(unused))
        raise ValueError(f"{id_} does not use {flags}; leave it out. It uses {uses or 'none of the options'}.")
    try:
        reproduce(BY_ID[id_], offline, chosen)
    except MissingRequirement as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def needs(recipe: Recipe, offline: bool = False, chosen: dict[str, Any] | None = None) -> str:
    """One paragraph: the published claim, how it was read, and the data, models and minutes that the row needs."""
    chosen = chosen or {}
    own = recipe.offline if offline else recipe.paper[0]
    models = replace(own or Models(), **chosen)
    paper, file = recipe.published, recipe.paper_file(models)
    data = [f"{name} ({', '.join(f for d in datasets.DOWNLOADS[name] for f in d.files)})" for name in recipe.data]
    data += [recipe.substitute] if file else []
    lines = [
        f"{recipe.id}: {recipe.title} ({paper.source['title']}, {paper.source['table']}; read in {paper.read_in})",
        f"  data: {recipe.placed_file(models) or ', '.join(data) or 'none'}",
    ]
    if file and not recipe.placed_file(models):
        lines.append(f"  to use the paper's file, put {file} from {LITM} into lost-in-the-middle/ in a data folder")
    if recipe.data or file:
        lines.append(f"  data folders: {', '.join(str(folder) for folder in settings.published_data_folders())}")
    if own is None:
        return "\n".join([*lines, f"  not offline: it needs {recipe.requirement}"])
    lines.append(f"  models: {', '.join(models.names) or 'none'}")
    if recipe.paper[1:] and not offline:
        alternatives = [
            f"--{kind} {getattr(m, kind)}" for m in recipe.paper[1:] for kind in KINDS if getattr(m, kind)
        ]
        lines.append(f"  also the paper's: {', '.join(alternatives)}")
    minutes = recipe.minutes[offline]
    others = " with the row's own models and questions" if chosen.keys() & {*KINDS, "sample"} else ""
    lines.append(f"  about {minutes:g} minute{'' if minutes == 1 else 's'}{others}")
    for name in filter(is_paid, dict.fromkeys(models.names)):
        lines.append(f"  {name}: dollars are estimated, and capped by RAG_LAB_MAX_USD, before the first call")
    return "\n".join(lines)


def reproduce(
    recipe: Recipe, offline: bool = False, chosen: dict[str, Any] | None = None, repeat: bool = True
) -> dict[str, Any]:
    """Run the row, write ``data/results/ID.json``, print its lines, and return the recorded result.

    A run with other models or questions than the row's own is kept as ``reproductions/ID-KEY.json`` in the cache
    folder instead. So is a run with the bundled models if the record has the paper's own. Unless ``repeat``, a record
    of the same run or of the paper's models is returned without running. Raises MissingRequirement if data or a model
    is missing.
    """
    print(needs(recipe, offline, chosen), flush=True)
    own = recipe.offline if offline else recipe.paper[0]
    if own is None:
        raise MissingRequirement(f"{recipe.id} cannot run offline: it needs {recipe.requirement}")
    models = replace(own, **(chosen or {}))
    files = _files(recipe, models, offline)
    run = {
        "model": models.description,
        "sha256": results.digest(files),
        "command": _command_line(recipe, offline, chosen or {}),
    }
    path, kept_because = results.RESULTS / f"{recipe.id}.json", ""
    by_paper = path.exists() and "--offline" not in _read(path)["provenance"]["command"].split()
    if replace(models, allow_remote_code=own.allow_remote_code) != own:
        kept_because = "not the row's own models and questions"
    elif offline and own != recipe.paper[0] and by_paper:
        kept_because = "the record is of the paper's own models"
        if not repeat:
            print(f"  {kept_because}\n")
            return _read(path)
    if kept_because:
        path = settings.cache_folder() / "reproductions" / f"{recipe.id}-{content_key(run)[:8]}.json"
    if not repeat and path.exists() and run.items() <= (recorded := _read(path))["provenance"].items():
        print(f"  recorded on {recorded['provenance']['date']}\n")
        return recorded
    start = time.perf_counter()
    rows = [_row(one, recipe.because(models)) for one in recipe.run(models)]
    placed = recipe.placed_file(models)
    data = placed.name if placed else ", ".join(recipe.data) or "none"
    results.write_result(recipe.id, rows, data=data, seconds=time.perf_counter() - start, path=path, **run)
    result = _read(path)
    for cells in lines(recipe, result):
        print("  " + " | ".join(filter(None, cells)))
    print(f"  {kept_because}: kept in {path}\n" if kept_because else "", flush=True)
    return result


def _files(recipe: Recipe, models: Models, offline: bool) -> list[Path]:
    """The files that the row reads, downloaded if missing unless ``offline``; also checks the models."""
    problems, files = missing(models), []
    try:
        if placed := recipe.placed_file(models):
            files = [placed]
        else:
            get = datasets.files_of if offline else datasets.fetch
            files = [path for name in recipe.data for path in get(name)]
    except OSError as error:
        problems.append(str(error))
    if problems:
        raise MissingRequirement(f"{recipe.id} cannot run: {'; '.join(problems)}")
    return files


def _read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def _row(one: Comparison, because: str) -> dict[str, Any]:
    row = {"name": one.name, "published": one.published} | results.interval_fields(one.measured)
    if one.published is not None:
        row |= {"difference": round(one.measured.value - one.published, 5), "verdict": verdict(one, because)}
    return row | {"shown": one.shown}


def _command_line(recipe: Recipe, offline: bool, chosen: dict[str, Any]) -> str:
    options = ["--offline"] if offline else []
    options += [f"--{k.replace('_', '-')}" + ("" if v is True else f" {v}") for k, v in chosen.items()]
    return " ".join(["python -m rag_lab reproduce", recipe.id, *options])


def lines(recipe: Recipe, result: dict[str, Any]) -> list[list[str]]:
    """The table's cells, one line per figure: row, figure, published, measured, difference, verdict.

    The row's name and the reason of its verdicts are only in the first line that they belong to. – means nothing.
    """
    shown = [row for row in result["rows"] if row["shown"]]
    sign = "+" if any("−" in row["name"] for row in shown) else ""
    first, reasons, cells = f"{recipe.title} (`{recipe.id}`)", set[str](), []
    for row in shown:
        kind, *reason = re.split("[;:] ", row.get("verdict", "–"), maxsplit=1)
        full = kind if reasons.issuperset(reason) else row["verdict"]
        reasons.update(reason)
        measured = _number(row["value"], sign)
        if row["n"] > 1:  # not computed, and not one document
            measured += f" [{_number(row['low'])}, {_number(row['high'])}] (n = {row['n']})"
        difference = _number(row.get("difference"), "+")
        cells.append([first, row["name"], _number(row["published"], sign), measured, difference, full])
        first = ""
    return cells


def _number(number: float | None, sign: str = "") -> str:
    if number is None:
        return "–"
    return format(number, f"{sign}.4g" if abs(number) >= 1 else f"{sign}z.4f")  # z: no minus before zeros


def _published_figures(recipe: Recipe) -> str:
    """The published figures of a row without a record: ``naive 64.2; late 66.1``."""
    figures: Any = recipe.published.values
    for key in recipe.figures:
        figures = figures[key]
    if not isinstance(figures, dict):
        figures = {recipe.published.metric: figures}
    series = {name: value if isinstance(value, list) else [value] for name, value in figures.items()}
    numbers = [number for values in series.values() for number in values]
    if len(numbers) > SHORT or any(isinstance(number, dict | str) for number in numbers):
        return "in data/published/numbers.yaml"
    return "; ".join(f"{name} {', '.join(map(_number, values))}" for name, values in series.items())


def table() -> str:
    """Published beside measured for every row that is recorded, and what the others wait for."""
    rows = []
    for recipe in RECIPES:
        try:
            recorded = lines(recipe, results.load_result(recipe.id))
        except FileNotFoundError:
            waits = f"waits for {recipe.requirement}"
            recorded = [[f"{recipe.title} (`{recipe.id}`)", "", _published_figures(recipe), "", "", waits]]
        rows += [[*cells, recipe.published.read_in if cells[0] else ""] for cells in recorded]
    measured = ("row", "figure", "published", "measured [95%]", "difference", "verdict")
    return results.markdown_table([*measured, "published figures were read in"], rows)
