"""The tables and the figure of the READMEs, written from the recorded results so that nobody types a number."""

from typing import Any

from rag_lab import results, settings
from rag_lab.reproduce import run
from rag_lab.results import load_result, markdown_table, show_interval

FIGURE = results.RESULTS / "corpora_late.png"
GUIDE = settings.PROJECT / "notebooks" / "README.md"

# Minutes of a workshop of three hours and of one of a day, by notebook; what is not a notebook comes first and last.
PLAN = {
    "welcome, set-up, make doctor": (15, 20),
    "01": (30, 30),
    "02": (35, 45),
    "03": (35, 45),
    "04": (0, 30),
    "05": (20, 35),
    "06": (0, 35),
    "07": (20, 40),
    "08": (0, 45),
    "09": (0, 15),
    "10": (0, 35),
    "breaks": (15, 75),
    "closing: what to take home": (10, 15),
}


def update() -> None:
    """Write the tables between the marks of the README and of the workshop guide, and the README's figure."""
    text = results.README.read_text(encoding="utf-8")
    text = results.replace_between(text, "notebooks", results.notebooks_table())
    text = results.replace_between(text, "reproduced", run.table())
    text = results.replace_between(text, "results", results_tables())
    results.README.write_text(text, encoding="utf-8", newline="\n")
    guide = results.replace_between(GUIDE.read_text(encoding="utf-8"), "plan", plan_table())
    GUIDE.write_text(guide, encoding="utf-8", newline="\n")
    draw_figure()


def results_tables() -> str:
    """What was measured and has no row of its own in the table of published numbers."""
    return "\n\n".join([corpora_table(), scifact_table(), ladder_table()])


def plan_table() -> str:
    """The workshop's two plans, with the time that each notebook took last, and their sums."""
    seconds = results.measured_seconds()
    rows = []
    for part, minutes in PLAN.items():
        name = next((name for name in results.NOTEBOOKS if name.startswith(part)), "")
        runs = f"{seconds[name] / 60:.1f}" if name in seconds else "" if not part.isdigit() else "not measured"
        rows.append([f"[{name}]({name}.ipynb)" if name else part, runs, *(str(m) if m else "–" for m in minutes)])
    sums = [f"{sum(times) // 60} h {sum(times) % 60:02d}" for times in zip(*PLAN.values(), strict=True)]
    rows.append(["all", f"{sum(seconds.values()) / 60:.1f}", *sums])
    return markdown_table(["part", "runs (minutes)", "three hours (minutes)", "one day (minutes)"], rows)


def select(result: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    """The one row whose fields have these values."""
    (row,) = [r for r in result["rows"] if all(r.get(key) == value for key, value in wanted.items())]
    return dict(row)


def corpora_table() -> str:
    """Span recall of naive and late chunking, and the paired difference."""
    result = load_result("corpora_late")
    rows = []
    for corpus, language, k in dict.fromkeys((r["corpus"], r["language"], r["k"]) for r in result["rows"]):
        found = {
            name: select(result, corpus=corpus, language=language, k=k, name=name)
            for name in ("naive", "late", "late - naive")
        }
        if k in (1, 5):
            rows.append(
                [f"{corpus} ({language}, n = {found['naive']['n']})", str(k), *map(show_interval, found.values())]
            )
    header = ["one sentence a chunk", "k", "naive: recall@k [95%]", "late", "late − naive, paired"]
    return made_by(result) + markdown_table(header, rows)


def scifact_table() -> str:
    """SciFact by chunk size."""
    result = load_result("scifact_chunks")
    rows = []
    for size in dict.fromkeys(r["size"] for r in result["rows"]):
        found = [select(result, size=size, name=name) for name in ("naive", "late", "late - naive")]
        rows.append([f"{size} tokens (n = {found[0]['n']})", *map(show_interval, found)])
    header = ["SciFact, chunks of", "naive: nDCG@10 [95%]", "late", "late − naive, paired"]
    return made_by(result) + markdown_table(header, rows)


RUNGS = (
    "dense",
    "late",
    "contextual dense (headings)",
    "contextual dense + BM25 (headings)",
    "contextual dense + BM25 (headings) + MaxSim",
)


def ladder_table() -> str:
    """The share of gold missing from the top 5 on each rung of the ladder (English questions)."""
    result = load_result("ladder")
    corpora = ("cities", "insurance", "handbook")
    fixed: dict[str, Any] = {"table": "failure", "chunk": "sentence", "language": "en", "k": 5}
    found = {
        name: [select(result, **fixed, corpus=corpus, name=name, sample=None) for corpus in corpora] for name in RUNGS
    }
    header = ["one sentence a chunk, failure rate: 1 − recall@5 [95%]"]
    header += [f"{corpus} (n = {row['n']})" for corpus, row in zip(corpora, found["dense"], strict=True)]
    rows = [[name, *map(show_interval, cells)] for name, cells in found.items()]
    return made_by(result) + markdown_table(header, rows)


def made_by(result: dict[str, Any]) -> str:
    """A line above a table: the model with its number format, and the command."""
    origin = result["provenance"]
    return f"{origin['model']}; `{origin['command']}`, {origin['date']}:\n\n"


def draw_figure() -> None:
    """Recall against k for naive and late, one panel a corpus (English questions)."""
    from matplotlib import pyplot as plt

    from rag_lab import plots

    result = load_result("corpora_late")
    names = list(dict.fromkeys(r["corpus"] for r in result["rows"]))
    figure, axes = plots.new_figure(width=9, height=3, columns=len(names))
    for panel, corpus in zip(axes, names, strict=True):
        ks = sorted({r["k"] for r in result["rows"]})
        series = {
            name: [
                (row["value"], row["low"], row["high"])
                for k in ks
                for row in [select(result, corpus=corpus, language="en", k=k, name=name)]
            ]
            for name in ("naive", "late")
        }
        plots.lines_with_intervals(panel, ks, series)
        n = select(result, corpus=corpus, language="en", k=1, name="naive")["n"]
        panel.set(xlabel="k", ylim=(0, 1), title=f"{corpus} (n = {n})", xticks=ks)
    axes[0].set(ylabel="span recall@k")
    figure.savefig(FIGURE)
    plt.close(figure)
