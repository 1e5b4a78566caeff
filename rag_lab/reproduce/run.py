"""``python -m rag_lab reproduce``: runs a published row, records it, and puts it beside the published figures."""

import json
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_lab import datasets, results, settings
from rag_lab.llm.load import is_paid
from rag_lab.reproduce.models import Models, missing
from rag_lab.reproduce.recipes import KINDS, RECIPES, Recipe
from rag_lab.results import Comparison, published, verdict
from rag_lab.storage import content_key

SERIES = 7  # published figures that stand in a row of the table that waits; of more it names the entry
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

    ``offline``: the bundled models. ``chosen``: fields of ``Models`` that take the place of the row's own; a model of
    a kind that a row does not use is refused for a named row and left out in ``list``. ``all`` passes over rows that
    use none of the chosen models (with a sample alone: that ask no questions), and those that are recorded by the
    same command, models and data, unless ``fresh``, and says what the others wait for; with ``offline`` also over
    those recorded with the paper's own models.
    ValueError for an unknown id, a model that the row does not use, or a sample where it asks no questions.
    """
    if id_ == "list":
        for recipe in RECIPES:
            print(needs(recipe, offline, _used(recipe, chosen)))
        return 0
    if id_ == "all":
        wanted = {*KINDS}.intersection(chosen or {}) or {"sample"}.intersection(chosen or {})
        for recipe in RECIPES:
            if wanted and not wanted.intersection(_used(recipe, chosen)):
                continue
            try:
                reproduce(recipe, offline, fresh, _used(recipe, chosen))
            except Waiting as waiting:
                print(f"{waiting}\n")
        print(table())
        return 0
    if id_ not in BY_ID:
        raise ValueError(f"there is no row {id_!r}; there are all, list, {', '.join(BY_ID)}.")
    if unused := [
        f"--{name} {value}" for name, value in (chosen or {}).items() if name not in _used(BY_ID[id_], chosen)
    ]:
        recipe = BY_ID[id_]
        uses = [*recipe.kinds, *(["questions"] if recipe.samples else [])]
        raise ValueError(
            f"{id_} uses {' and '.join(uses) or 'no model and no questions'}: leave {' and '.join(unused)} out."
        )
    try:
        reproduce(BY_ID[id_], offline, True, chosen)
    except Waiting as waiting:
        print(waiting, file=sys.stderr)
        return 1
    return 0


def _used(recipe: Recipe, chosen: dict[str, Any] | None) -> dict[str, Any]:
    """What is chosen, without models of a kind that the row does not use, or a sample where it asks no questions."""
    unused = {*KINDS} - {*recipe.kinds} | (set() if recipe.samples else {"sample"})
    return {name: value for name, value in (chosen or {}).items() if name not in unused}


def needs(recipe: Recipe, offline: bool, chosen: dict[str, Any] | None = None) -> str:
    """One paragraph: the published claim, how it was read, and the data, models, minutes and dollars of the row.

    Minutes and dollars are those of the row's own models, and it says so where others are ``chosen``.
    """
    paper, chosen = published(recipe.published), chosen or {}
    own = recipe.offline if offline else recipe.paper
    source = f"{paper.source['title']}, {paper.source['table']}; read in {paper.read_in}"
    lines = [f"{recipe.id}: {recipe.title} ({source})", *_data_lines(recipe, replace(own or Models(), **chosen))]
    if own is None:
        return "\n".join([*lines, f"  offline: waits for {recipe.waits_for}"])
    lines.append(f"  models: {', '.join(replace(own, **chosen).named) or 'none'}")
    if recipe.also and not offline:
        also = [f"--{kind} {name}" for models in recipe.also for kind in KINDS if (name := getattr(models, kind))]
        lines.append(f"  also the paper's: {', '.join(also)}")
    minutes = recipe.offline_minutes if offline else recipe.minutes
    dollars = 0.0 if offline else recipe.dollars
    cost = f"  about {minutes:g} minute{'' if minutes == 1 else 's'}, ${dollars:.2f}"
    others = chosen.keys() & {*KINDS, "sample"}
    lines.append(cost + (" with the row's own models and questions, not with those chosen" if others else ""))
    for name in dict.fromkeys(chosen[kind] for kind in KINDS if is_paid(chosen.get(kind, ""))):
        lines.append(f"  {name}: dollars are estimated, and capped by RAG_LAB_MAX_USD, before the first call")
    return "\n".join(lines)


def _data_lines(recipe: Recipe, models: Models) -> list[str]:
    """The files that a run with these models reads, and where files are looked for."""
    named = [f"{name} ({', '.join(f for d in datasets.DOWNLOADS[name] for f in d.files)})" for name in recipe.data]
    path, own_file = recipe.placed(models), recipe.own_file(models)
    instead = [recipe.instead] if own_file else []
    lines = [f"  data: {path or ', '.join([*named, *instead]) or 'none'}"]
    if own_file and not path:
        lines.append(
            f"  the paper's own file is read instead once you put {own_file} from "
            "https://github.com/nelson-liu/lost-in-the-middle into lost-in-the-middle/ in a data folder"
        )
    if recipe.data or own_file:
        lines.append(f"  data folders: {', '.join(str(folder) for folder in settings.published_data_folders())}")
    return lines


def reproduce(
    recipe: Recipe, offline: bool = False, fresh: bool = True, chosen: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Say what the row needs, run it, write ``data/results/ID.json`` and print its line; the recorded result.

    A run with other models or questions than the row's own leaves that record as it is, and is kept as
    ``reproductions/ID-KEY.json`` in the cache folder. Unless ``fresh``, what is recorded is returned and not run
    again; with ``offline`` so is a record of the paper's own models, which no run with the bundled ones replaces.
    Raises Waiting where data or a model cannot be had.
    """
    print(needs(recipe, offline, chosen), flush=True)
    own = recipe.offline if offline else recipe.paper
    if own is None:
        raise Waiting(recipe.id, (recipe.waits_for,))
    models = replace(own, **(chosen or {}))
    reasons = missing(models)
    files: list[Path] = []
    try:
        files = _data(recipe, models, offline)
    except OSError as error:
        reasons.append(str(error))
    if reasons:
        raise Waiting(recipe.id, tuple(reasons))
    same = {
        "model": models.described(),
        "sha256": results.digest(files),
        "command": _command_line(recipe, offline, chosen),
    }
    is_own = replace(models, allow_remote_code=own.allow_remote_code) == own
    path = results.RESULTS / f"{recipe.id}.json" if is_own else _beside(recipe, same)
    differ = is_own and offline and recipe.offline != recipe.paper
    papers_own = differ and path.exists() and not _is_offline(_read(path))
    if not fresh and path.exists():
        recorded = _read(path)
        if papers_own or same.items() <= recorded["provenance"].items():
            with_what = " with the paper's own models, which stays" if papers_own else ""
            print(f"  recorded on {recorded['provenance']['date']}{with_what}\n")
            return recorded
    if papers_own:
        path = _beside(recipe, same)
    began = time.perf_counter()
    comparisons = recipe.run(models)
    placed = recipe.placed(models)
    results.write_result(
        recipe.id,
        [_row(one, recipe.because(models)) for one in comparisons],
        data=placed.name if placed else ", ".join(recipe.data) or "none",
        seconds=time.perf_counter() - began,
        path=path,
        **same,
    )
    result = _read(path)
    for cells in lines(recipe, result):
        print("  " + " | ".join(filter(None, cells)))
    why = "the record is the paper's own models'" if papers_own else "not the row's own models and questions"
    print("" if path.parent == results.RESULTS else f"  {why}: kept in {path}\n", flush=True)
    return result


def _data(recipe: Recipe, models: Models, offline: bool) -> list[Path]:
    """The files that the row reads; those that are nowhere are downloaded, unless ``offline``."""
    if placed := recipe.placed(models):
        return [placed]
    get = datasets.files_of if offline else datasets.fetch
    return [path for name in recipe.data for path in get(name)]


def _beside(recipe: Recipe, same: dict[str, str]) -> Path:
    folder = settings.cache_folder() / "reproductions"
    folder.mkdir(exist_ok=True)
    return folder / f"{recipe.id}-{content_key(same)[:8]}.json"


def _read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def _is_offline(recorded: dict[str, Any]) -> bool:
    return "--offline" in recorded["provenance"]["command"].split()


def _row(one: Comparison, because: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": one.name, "published": one.published}
    fields |= results.interval_fields(one.measured)
    if one.published is not None:
        fields["difference"] = round(one.measured.value - one.published, 5)
        fields["verdict"] = verdict(one, because)
    return fields | {"shown": one.shown}


def _command_line(recipe: Recipe, offline: bool, chosen: dict[str, Any] | None) -> str:
    options = ["--offline"] if offline else []
    for name, value in (chosen or {}).items():
        options.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join(["python -m rag_lab reproduce", recipe.id, *options])


def lines(recipe: Recipe, result: dict[str, Any]) -> list[list[str]]:
    """The table's cells, a line a figure: row, figure, published, measured, difference, verdict; – where nothing is.

    The row and the reason of its verdicts stand in the first line that they belong to.
    """
    shown = [row for row in result["rows"] if row["shown"]]
    signed = "+" if any("−" in row["name"] for row in shown) else ""
    first, said, cells = f"{recipe.title} (`{recipe.id}`)", set[str](), []
    for row in shown:
        kind, *reason = re.split("[;:] ", row.get("verdict", "–"), maxsplit=1)
        verdict_ = kind if said.issuperset(reason) else row["verdict"]
        said.update(reason)
        figures = [_number(row["published"], signed), _measured(row, signed), _number(row.get("difference"), "+")]
        cells.append([first, row["name"], *figures, verdict_])
        first = ""
    return cells


def _measured(row: dict[str, Any], signed: str) -> str:
    value = _number(row["value"], signed)
    if row["n"] == 1:  # computed, or one document
        return value
    return f"{value} [{_number(row['low'])}, {_number(row['high'])}] (n = {row['n']})"


def _number(number: float | None, sign: str = "") -> str:
    if number is None:
        return "–"
    return format(number, f"{sign}.4g" if abs(number) >= 1 else f"{sign}z.4f")  # z: no minus before zeros


def _figures(values: dict[str, Any]) -> str:
    """``naive 64.2; late 66.1``; "" for more than a short series."""
    series = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    if sum(map(len, series.values())) > SERIES or any(isinstance(v, dict | str) for s in series.values() for v in s):
        return ""
    return "; ".join(f"{name} {', '.join(map(_number, numbers))}" for name, numbers in series.items())


def table() -> str:
    """Published beside measured for every row that is recorded, and what the others wait for."""
    rows = []
    for recipe in RECIPES:
        paper = published(recipe.published)
        try:
            recorded = lines(recipe, results.load_result(recipe.id))
        except FileNotFoundError:
            waits_for = recipe.waits_for or f"a run: `reproduce {recipe.id} --offline`"
            figures = _figures(recipe.figures(paper.values)) or "in data/published/numbers.yaml"
            recorded = [[f"{recipe.title} (`{recipe.id}`)", "", figures, "", "", f"waits for {waits_for}"]]
        rows += [[*cells, paper.read_in if cells[0] else ""] for cells in recorded]
    header = [
        "row",
        "figure",
        "published",
        "measured [95%]",
        "difference",
        "verdict",
        "published figures were read in",
    ]
    return results.markdown_table(header, rows)
