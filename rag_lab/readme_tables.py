"""The README's tables and figure, written from the recorded results so that nobody types a number."""

from typing import Any

from rag_lab import papers
from rag_lab.papers import load_result, markdown_table, published, show_interval

FIGURE = papers.RESULTS / "corpora_late.png"


def update() -> None:
    """Write the tables between the README's marks, and the figure that it shows."""
    text = papers.README.read_text(encoding="utf-8")
    text = papers.replace_between(text, "notebooks", papers.notebooks_table())
    text = papers.replace_between(text, "results", results_tables())
    papers.README.write_text(text, encoding="utf-8")
    draw_figure()


def results_tables() -> str:
    """Published beside measured, then what has no published counterpart."""
    return "\n\n".join([published_table(), corpora_table(), scifact_table(), ladder_table()])


def select(result: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    """The one row whose fields have these values."""
    (row,) = [r for r in result["rows"] if all(r.get(key) == value for key, value in wanted.items())]
    return dict(row)


def verdict(value: float, row: dict[str, Any]) -> str:
    """*reproduced*: the published value lies in the measured interval; *not reproduced* otherwise."""
    return "reproduced" if row["low"] <= value <= row["high"] else "not reproduced"


def published_table() -> str:
    """One line a published number: value, what was measured here, and whether the two can be compared."""
    rows = []
    for id_, result, name in (
        ("minilm_scifact", "scifact_whole", "whole abstracts, first 256 tokens"),
        ("anserini_bm25_scifact", "scifact_bm25", "BM25Index, bm25s, Lucene settings"),
    ):
        paper, row = published(id_), select(load_result(result), name=name)
        value = paper.values["nDCG@10"]
        rows.append([paper.claim, f"{value:.4f} ({paper.read})", show_interval(row, 4), verdict(value, row)])
    rows.append(berlin_row())
    paper, row = (
        published("late_scifact_fixed256"),
        select(load_result("scifact_chunks"), size=128, name="late - naive"),
    )
    rows.append(
        [
            f"{paper.claim}: late minus naive ({paper.model})",
            f"{(paper.values['late'] - paper.values['naive']) / 100:+.3f} ({paper.read})",
            f"{show_interval(row)} at {row['size']} tokens",
            "not comparable: another model, other chunks",
        ]
    )
    return markdown_table(["claim", "published", "measured", "verdict"], rows)


def berlin_row() -> list[str]:
    """What late chunking adds to each sentence's similarity: another model here, so only the direction compares."""
    paper, measured = published("late_berlin"), load_result("berlin")
    theirs = [late - naive for naive, late in zip(paper.values["naive"], paper.values["late"], strict=True)]
    ours = [
        select(measured, name="late", sentence=i)["value"] - select(measured, name="naive", sentence=i)["value"]
        for i in (1, 2, 3)
    ]
    same = all((a > 0) == (b > 0) for a, b in zip(theirs, ours, strict=True))
    return [
        f"{paper.claim}: late minus naive ({paper.model})",
        f"{', '.join(f'{x:+.3f}' for x in theirs)} ({paper.read})",
        f"{', '.join(f'{x:+.3f}' for x in ours)}, no interval: one document",
        f"{'same' if same else 'another'} direction, another model",
    ]


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
