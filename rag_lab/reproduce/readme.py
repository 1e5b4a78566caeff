"""The tables and the figure of the READMEs, made from the recorded results so that no number is typed."""

from typing import Any

import yaml

from rag_lab import results, settings
from rag_lab.reproduce import run
from rag_lab.results import load_result, markdown_table, measured_seconds, show_interval

README = settings.PROJECT / "README.md"
GUIDE = settings.PROJECT / "notebooks" / "README.md"
RESULTS_README = results.RESULTS / "README.md"
FIGURE = results.RESULTS / "corpora_late.png"

STAGES = (
    "dense",
    "late",
    "contextual dense (headings)",
    "contextual dense + BM25 (headings)",
    "contextual dense + BM25 (headings) + MaxSim",
)


def update() -> None:
    """Write every table between its marks, and the README's figure."""
    tables = {
        README: {"notebooks": notebooks_table()},
        GUIDE: {"plan": plan_table()},
        RESULTS_README: {"reproduced": run.table(), "results": results_tables()},
    }
    for path, by_name in tables.items():
        text = path.read_text(encoding="utf-8")
        for name, table in by_name.items():
            text = replace_between(text, name, table)
        path.write_text(text, encoding="utf-8", newline="\n")
    draw_figure()


def replace_between(text: str, name: str, new: str) -> str:
    """Replace what is between ``<!-- name -->`` and ``<!-- /name -->``. Raises ValueError if a mark is missing."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if start not in text or end not in text:
        raise ValueError(f"the page has no marks {start} and {end}; put them back where the table belongs.")
    before, rest = text.split(start, 1)
    return f"{before}{start}\n{new}\n{end}{rest.split(end, 1)[1]}"


def workshop() -> list[dict[str, Any]]:
    """The parts of a workshop (``data/workshop.yaml``) with their minutes; a notebook also says what it ``shows``."""
    parts: list[dict[str, Any]] = yaml.safe_load((settings.DATA / "workshop.yaml").read_text(encoding="utf-8"))
    return parts


def notebooks_table() -> str:
    """The notebooks with what they show and the seconds that each took last."""
    seconds = measured_seconds()
    rows = [
        [f"[{name}](notebooks/{name}.ipynb)", shows, f"{seconds[name]:.0f} s" if name in seconds else "not measured"]
        for name, shows in ((one["part"], one["shows"]) for one in workshop() if "shows" in one)
    ]
    return markdown_table(["notebook", "what it shows", "time on 2 cores"], rows)


def plan_table() -> str:
    """The workshop's two plans, with the minutes that each notebook ran last, and their sums."""
    seconds = measured_seconds()
    rows, parts = [], workshop()
    for one in parts:
        part, is_notebook = one["part"], "shows" in one
        name = f"[{part}]({part}.ipynb)" if is_notebook else part
        runs = f"{seconds[part] / 60:.1f}" if part in seconds else "not measured" if is_notebook else ""
        rows.append([name, runs, *(str(m) if m else "–" for m in one["minutes"])])
    sums = [sum(times) for times in zip(*(one["minutes"] for one in parts), strict=True)]
    rows.append(["all", f"{sum(seconds.values()) / 60:.1f}", *(f"{s // 60} h {s % 60:02d}" for s in sums)])
    return markdown_table(["part", "runs (minutes)", "three hours (minutes)", "one day (minutes)"], rows)


def results_tables() -> str:
    """What was measured and is not a published row: late chunking by corpus and by chunk size, and the ablation."""
    ways = ("naive", "late", "late - naive")
    corpora, scifact, ablation = (load_result(id_) for id_ in ("corpora_late", "scifact_chunks", "ladder"))

    by_corpus = []
    for corpus, language, k in dict.fromkeys((r["corpus"], r["language"], r["k"]) for r in corpora["rows"]):
        if k in (1, 5):
            found = [select(corpora, corpus=corpus, language=language, k=k, name=way) for way in ways]
            label = f"{corpus} ({language}, n = {found[0]['n']})"
            by_corpus.append([label, str(k), *map(show_interval, found)])

    by_size = []
    for size in dict.fromkeys(r["size"] for r in scifact["rows"]):
        found = [select(scifact, size=size, name=way) for way in ways]
        by_size.append([f"{size} tokens (n = {found[0]['n']})", *map(show_interval, found)])

    names = ("cities", "insurance", "handbook")
    fixed: dict[str, Any] = {"table": "failure", "chunk": "sentence", "language": "en", "k": 5, "sample": None}
    stages = {stage: [select(ablation, **fixed, corpus=name, name=stage) for name in names] for stage in STAGES}
    sizes = [f"{name} (n = {row['n']})" for name, row in zip(names, stages["dense"], strict=True)]

    late = ["late", "late − naive, paired"]
    failure = "one sentence per chunk, failure rate: 1 − recall@5 [95%]"
    return "\n\n".join(
        _caption(result) + markdown_table(header, rows)
        for result, header, rows in (
            (corpora, ["one sentence per chunk", "k", "naive: recall@k [95%]", *late], by_corpus),
            (scifact, ["SciFact, chunks of", "naive: nDCG@10 [95%]", *late], by_size),
            (ablation, [failure, *sizes], [[name, *map(show_interval, cells)] for name, cells in stages.items()]),
        )
    )


def select(result: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    """The one row whose fields have these values."""
    (row,) = [r for r in result["rows"] if all(r.get(key) == value for key, value in wanted.items())]
    return dict(row)


def _caption(result: dict[str, Any]) -> str:
    origin = result["provenance"]
    return f"{origin['model']}; `{origin['command']}`, {origin['date']}:\n\n"


def draw_figure() -> None:
    """Recall against k for naive and late, one panel per corpus (English questions)."""
    from matplotlib import pyplot as plt

    from rag_lab import plots

    result = load_result("corpora_late")
    names = list(dict.fromkeys(r["corpus"] for r in result["rows"]))
    ks = sorted({r["k"] for r in result["rows"]})
    figure, axes = plots.new_figure(width=9, height=3, columns=len(names))
    for panel, corpus in zip(axes, names, strict=True):
        series = {}
        for way in ("naive", "late"):
            rows = [select(result, corpus=corpus, language="en", k=k, name=way) for k in ks]
            series[way] = [(row["value"], row["low"], row["high"]) for row in rows]
        plots.lines_with_intervals(panel, ks, series)
        panel.set(xlabel="k", ylim=(0, 1), title=f"{corpus} (n = {rows[0]['n']})", xticks=ks)
    axes[0].set(ylabel="span recall@k")
    figure.savefig(FIGURE)
    plt.close(figure)
