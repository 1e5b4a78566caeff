"""A sweep's rows as tables, figures, sentences, and all of it on one HTML page."""

import base64
import html
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab import plots
from rag_lab.metrics import OUTCOMES, Interval
from rag_lab.results import markdown_table, show_interval
from rag_lab.sweeps.analysis import Best, Effect, Row, TooFewQuestions, best_on_heldout, main_effects, ranked, swept

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #111; }
table { border-collapse: collapse; font-size: 13px; } th, td { border-bottom: 1px solid #ccc; padding: .25rem .6rem; }
th { text-align: left; }
tr.same { background: #eee; } img { max-width: 100%; } .wide { overflow-x: auto; }
"""


def cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the ranking: number, swept values, mean with interval, the outcomes' counts, dollars."""
    keys = swept(rows)
    paid = any(row["dollars"] for row in rows)
    header = ["run", *keys, "mean score [95%]", *(o.replace("_", " ") for o in OUTCOMES), *["dollars"] * paid]
    body = []
    for row in ranked(rows):
        mean = show_interval(row["mean"]) if row["mean"] else "none"
        counts = [str(row["counts"][outcome]) for outcome in OUTCOMES]
        dollars = [f"{row['dollars']:.4f}"] * paid
        body.append([str(row["number"]), *(_shown(row["configuration"][k]) for k in keys), mean, *counts, *dollars])
    return header, body


def table(rows: Sequence[Row], n: int | None = None) -> str:
    """The best ``n`` rows (default: all) as a Markdown table."""
    header, body = cells(rows)
    return markdown_table(header, body[:n])


def _shown(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def label(row: Row, keys: Sequence[str]) -> str:
    """``3: raw, 1500`` from a row's number and its values of ``keys``."""
    values = ", ".join(_shown(row["configuration"][key]) for key in keys)
    return f"{row['number']}: {values}" if values else str(row["number"])


def plot_ranking(axes: "Axes", rows: Sequence[Row], n: int = 20) -> None:
    """Mean score with interval of the best ``n`` configurations, best on top."""
    best = [row for row in ranked(rows) if row["mean"]][:n]
    keys = swept(rows)
    plots.differences(axes, [label(row, keys) for row in best], {"mean score": [_mean(row) for row in best]})
    axes.set_xlabel("mean score a question (+1, 0, −1), 95% interval")


def plot_effects(axes: "Axes", effects: Sequence[Effect]) -> None:
    """Main effects with intervals; one whose interval holds 0 shows no difference."""
    labels = [f"{effect.key} = {_shown(effect.value)}" for effect in effects]
    plots.differences(axes, labels, {"effect": [effect.difference for effect in effects]})
    axes.set_xlabel("this value less the others, points a question, 95% interval")


def sentences(rows: Sequence[Row], seed: int = 0) -> list[str]:
    """The findings in plain sentences: the honest winner, how many it is not told apart from, and what these
    questions cannot show."""
    return _findings(rows, seed)[1]


def _findings(rows: Sequence[Row], seed: int = 0) -> tuple[Best | None, list[str]]:
    """The honest winner, None where there is nothing to choose from or by, and the sentences."""
    best = None
    try:
        best = best_on_heldout(rows, seed) if len(rows) != 1 else None
        said = _winner(best, rows) if best else [_only(rows[0])]
    except TooFewQuestions as error:
        said = [f"No best one is named. {error}"]
    positives = len(rows[0]["answerable"])
    negatives = len(rows[0]["outcomes"]) - positives
    if not negatives:
        said.append("Every question has an answer, so nothing shows how often a question without one is answered.")
    elif not positives:
        said.append("No question has an answer, so 0 is the most there is, and to refuse everything reaches it.")
    elif best and 1 in (positives, negatives):
        kind = "an" if positives == 1 else "no"
        said.append(f"Only one question has {kind} answer, and one half lacks it: do not compare the halves' scores.")
    if errors := sum(row["counts"]["error"] for row in rows):
        said.append(
            f"{errors} answers failed; they are counted apart, without a score. Run the sweep again for them."
        )
    return best, said


def _winner(best: Best, rows: Sequence[Row]) -> list[str]:
    return [
        f"Best on one half of the questions: run {best.row['number']} "
        f"({label(best.row, swept(rows)).partition(': ')[2]}), {_show(best.chosen)}.",
        f"On the other half, which did not choose it, it scores {_show(best.reported)}: this is its number.",
        f"Not told apart from it there (95% interval of the paired difference holds 0, {len(rows) - 1} comparisons): "
        + (f"{len(best.same)} of {len(rows) - 1} others." if best.same else "none of the others."),
    ]


def _only(row: Row) -> str:
    mean = f"scores {_show(_mean(row))} on all questions" if row["mean"] else "has no score"
    return f"Run {row['number']} is the only one, so nothing was chosen: it {mean}."


def _mean(row: Row) -> Interval:
    return Interval(*(row["mean"][field] for field in ("value", "low", "high", "n")))


def _show(interval: Interval) -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}] (n = {interval.n})"


def write_report(rows: Sequence[Row], path: str | Path, title: str = "") -> Path:
    """One self-contained HTML page: findings, ranking, main effects, where answers failed. Returns its path.

    What too few questions, or one configuration, cannot show is said in a sentence. ValueError as ``scores``.
    """
    (best, said), effects = _findings(rows), main_effects(rows)
    title = title or f"Sweep: {rows[0]['name']}"
    header, body = cells(rows)
    same = {str(number) for number in (*best.same, best.row["number"])} if best else set()
    drawn = min(sum(bool(row["mean"]) for row in rows), 20)
    keys = swept(rows)
    fixed = {key: value for key, value in rows[0]["configuration"].items() if key not in keys}
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{len(rows)} configurations, {len(rows[0]['outcomes'])} questions each. Scores: +1 a question answered "
        "correctly, −1 one answered that the documents do not answer, 0 otherwise; errors have none.</p>",
        *(f"<p>{html.escape(sentence)}</p>" for sentence in said),
        "<h2>Ranking</h2>",
    ]
    if drawn:
        figure = _figure(lambda axes: plot_ranking(axes, rows), drawn, "Mean score of the best configurations")
        parts.append(figure)
    parts.append(_html_table(header, body, same))
    if best:
        parts.append("<p>Shaded: the winner and those not told apart from it.</p>")
    if effects:
        lines = [
            [e.key, _shown(e.value), str(e.configurations), _show(e.difference), "" if e.found else "none found"]
            for e in effects
        ]
        parts += [
            "<h2>What mattered</h2>",
            _figure(lambda axes: plot_effects(axes, effects), len(effects), "Main effects with intervals"),
            _html_table(["key", "value", "configurations", "this value less the others [95%]", ""], lines, set()),
        ]
    verdicts = sorted({verdict for row in rows for verdict in row["diagnosis"]})
    failures = [[str(r["number"]), *(str(r["diagnosis"].get(v, 0)) for v in verdicts)] for r in ranked(rows)]
    parts += [
        "<h2>Was it the retrieval or the writing?</h2>",
        _html_table(["run", *(verdict.replace("_", " ") for verdict in verdicts)], failures, same),
        "<h2>The same in all</h2>",
        _html_table(["key", "value"], [[key, _shown(value)] for key, value in fixed.items()], set()),
    ]
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _figure(draw: Callable[["Axes"], None], rows: int, alt: str) -> str:
    """An image element with a figure of that many rows in it, drawn without a display."""
    import matplotlib.pyplot as plt

    figure, axes = plots.new_figure(9.0, 1.2 + 0.3 * rows)
    draw(axes)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    plt.close(figure)
    return (
        f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
    )


def _html_table(header: Sequence[str], body: Sequence[Sequence[str]], shaded: set[str]) -> str:
    """Rows whose first cell is in ``shaded`` are."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    lines = [
        f"<tr{' class=same' if row[0] in shaded else ''}>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>"
        for row in body
    ]
    return f'<div class="wide"><table><tr>{head}</tr>\n{"".join(lines)}</table></div>'
