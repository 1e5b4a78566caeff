"""The rows of a sweep as a table, figures, sentences, and all of it on one HTML page."""

import base64
from collections.abc import Callable, Collection, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab import plots
from rag_lab.metrics import OUTCOMES, Interval
from rag_lab.results import markdown_table
from rag_lab.storage import write_atomic
from rag_lab.sweeps.analysis import Best, Effect, Row, TooFewQuestions, best_on_heldout, main_effects, ranked, swept

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = 20  # configurations in a figure

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #111; }}
table {{ border-collapse: collapse; font-size: 13px; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .25rem .6rem; text-align: left; }}
tr.same {{ background: #eee; }} img {{ max-width: 100%; }} .wide {{ overflow-x: auto; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def table(rows: Sequence[Row], n: int | None = None) -> str:
    """The best ``n`` rows (default: all) as a Markdown table."""
    header, body = _ranking(rows)
    return markdown_table(header, body[:n])


def plot_ranking(axes: "Axes", rows: Sequence[Row], n: int = DRAWN) -> None:
    """Mean score with its interval of the best ``n`` configurations, the best on top."""
    best = [row for row in ranked(rows) if row["mean"]][:n]
    labels = [f"{row['number']}: {_values(row, swept(rows))}".removesuffix(": ") for row in best]
    plots.differences(axes, labels, {"mean score": [Interval.from_row(row["mean"]) for row in best]})
    axes.set_xlabel("mean score per question (+1, 0, −1), 95% interval")


def plot_effects(axes: "Axes", effects: Sequence[Effect]) -> None:
    """Main effects with their intervals. An interval that includes 0 shows no difference."""
    labels = [f"{effect.key} = {_shown(effect.value)}" for effect in effects]
    plots.differences(axes, labels, {"effect": [effect.difference for effect in effects]})
    axes.set_xlabel("this value minus the others, points per question, 95% interval")


def sentences(rows: Sequence[Row], seed: int = 0) -> list[str]:
    """The best on held-out questions, how many do not differ from it, and what these questions cannot show."""
    return _findings(rows, seed)[1]


def write_report(rows: Sequence[Row], path: str | Path, title: str = "") -> Path:
    """Write one self-contained HTML page: findings, ranking, main effects, where answers failed. Returns its path.

    A sentence says what too few questions or a single configuration cannot show. Raises ValueError as ``scores``.
    """
    (best, said), effects = _findings(rows), main_effects(rows)
    shaded = {str(number) for number in (*best.same, best.row["number"])} if best else set()
    parts = [
        f"<p>{len(rows)} configurations, {len(rows[0]['outcomes'])} questions each. Scores: +1 for a correct answer, "
        "−1 for an answer to a question that the documents do not answer, 0 otherwise; errors have none.</p>",
        *(f"<p>{escape(sentence)}</p>" for sentence in said),
        "<h2>Ranking</h2>",
    ]
    if drawn := min(sum(bool(row["mean"]) for row in rows), DRAWN):
        parts.append(_image("Mean score of the best configurations", drawn, plot_ranking, rows))
    parts.append(_html_table(*_ranking(rows), shaded))
    if best:
        parts.append("<p>Shaded: the best, and those that do not differ from it.</p>")
    if effects:
        lines = [
            [e.key, _shown(e.value), str(e.configurations), _with_n(e.difference), "" if e.found else "none found"]
            for e in effects
        ]
        header = ["key", "value", "configurations", "this value minus the others [95%]", ""]
        image = _image("Main effects with intervals", len(effects), plot_effects, effects)
        parts += ["<h2>What mattered</h2>", image, _html_table(header, lines)]
    modes = sorted({mode for row in rows for mode in row["diagnosis"]})
    failures = [[str(r["number"]), *(str(r["diagnosis"].get(mode, 0)) for mode in modes)] for r in ranked(rows)]
    keys = swept(rows)
    fixed = [[key, _shown(value)] for key, value in rows[0]["configuration"].items() if key not in keys]
    parts += [
        "<h2>Was it the retrieval or the writing?</h2>",
        _html_table(["run", *(mode.replace("_", " ") for mode in modes)], failures, shaded),
        "<h2>The same in all</h2>",
        _html_table(["key", "value"], fixed),
    ]
    title = title or f"Sweep: {rows[0]['name']}"
    write_atomic(path, _PAGE.format(title=escape(title), body="\n".join(parts)))
    return Path(path)


def _findings(rows: Sequence[Row], seed: int = 0) -> tuple[Best | None, list[str]]:
    """The best on held-out questions, None if there is nothing to choose from or by, and the sentences."""
    best = None
    if len(rows) == 1:
        mean = rows[0]["mean"]
        worth = f"scores {_with_n(Interval.from_row(mean))} on all questions" if mean else "has no score"
        said = [f"Run {rows[0]['number']} is the only one, so nothing was chosen: it {worth}."]
    else:
        try:
            best = best_on_heldout(rows, seed)
            others = len(rows) - 1
            said = [
                f"Best on one half of the questions: run {best.row['number']} ({_values(best.row, swept(rows))}), "
                f"{_with_n(best.chosen)}.",
                f"On the other half, which did not choose it, it scores {_with_n(best.reported)}: quote this number.",
                "Not told apart from it there (the 95% interval of the paired difference includes 0; "
                f"{others} comparisons): "
                + (f"{len(best.same)} of {others} others." if best.same else "none of the others."),
            ]
        except TooFewQuestions as error:
            said = [f"No best one is named. {error}"]
    positives = len(rows[0]["answerable"])
    negatives = len(rows[0]["outcomes"]) - positives
    if not negatives:
        said.append("Every question has an answer, so nothing shows how often a question without one is answered.")
    elif not positives:
        said.append("No question has an answer, so the best possible score is 0, and refusing everything reaches it.")
    elif best and 1 in (positives, negatives):
        kind = "an" if positives == 1 else "no"
        said.append(f"Only one question has {kind} answer, and one half lacks it: do not compare the halves' scores.")
    if errors := sum(row["counts"]["error"] for row in rows):
        said.append(
            f"{errors} answers failed. They are counted apart, without a score: run the sweep again for them."
        )
    return best, said


def _ranking(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the ranking: number, swept values, mean with interval, counts of outcomes, dollars."""
    keys = swept(rows)
    paid = any(row["dollars"] for row in rows)
    header = ["run", *keys, "mean score [95%]", *(o.replace("_", " ") for o in OUTCOMES), *["dollars"] * paid]
    body = []
    for row in ranked(rows):
        mean = f"{Interval.from_row(row['mean']):.3f}" if row["mean"] else "none"
        counts = [str(row["counts"][outcome]) for outcome in OUTCOMES]
        dollars = [f"{row['dollars']:.4f}"] * paid
        body.append([str(row["number"]), *(_shown(row["configuration"][k]) for k in keys), mean, *counts, *dollars])
    return header, body


def _values(row: Row, keys: Sequence[str]) -> str:
    return ", ".join(_shown(row["configuration"][key]) for key in keys)


def _shown(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _with_n(interval: Interval) -> str:
    return f"{interval:.3f} (n = {interval.n})"


def _image(alt: str, lines: int, draw: Callable[[Any, Any], None], drawn: Any) -> str:
    """What ``draw`` draws of ``drawn``, in this number of lines, as a figure in the page."""
    import matplotlib.pyplot as plt

    figure, axes = plots.new_figure(9.0, 1.2 + 0.3 * lines)
    draw(axes, drawn)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    plt.close(figure)
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'


def _html_table(header: Sequence[str], body: Sequence[Sequence[str]], shaded: Collection[str] = ()) -> str:
    """Rows whose first cell is in ``shaded`` are shaded."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = [
        f"<tr{' class=same' if row[0] in shaded else ''}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in body
    ]
    return f'<div class="wide"><table><tr>{head}</tr>\n{"".join(lines)}</table></div>'
