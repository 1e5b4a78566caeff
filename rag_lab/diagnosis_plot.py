"""The diagnosis of a set of questions as one figure."""

from typing import TYPE_CHECKING

import numpy as np

from rag_lab.diagnosis import ADVICE, VERDICTS, DiagnosisSummary
from rag_lab.metrics import wilson_interval
from rag_lab.plots import COLOURS, HATCHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {
    "right": "right, and cited",
    "rightly_refused": "rightly refused",
    "retrieval_failed": "retrieval failed",
    "lost_in_selection": "lost in selection",
    "writing_failed": "writing failed",
    "wrong_reason": "right, wrong reason",
    "answered_anyway": "answered anyway",
    "error": "error",
}


def plot_diagnosis(axes: "Axes", summary: DiagnosisSummary) -> None:
    """A bar a verdict: its share of all questions in percent, with Wilson's 95% interval, its count and its details.

    Failures are hatched; below stands what to work on next.
    """
    rows = np.arange(len(VERDICTS))
    for row, verdict in zip(rows, VERDICTS, strict=True):
        share = wilson_interval(summary.counts[verdict], summary.n)
        low, value, high = (100 * bound for bound in (share.low, share.value, share.high))
        failed = verdict in ADVICE
        axes.barh(row, value, color=COLOURS[1 if failed else 0], hatch=HATCHES[1 if failed else 0], edgecolor="white")
        axes.errorbar(value, row, xerr=[[value - low], [high - value]], color="#333333", capsize=3, elinewidth=1.2)
        parts = [
            f"{detail.split(': ')[1]} {count}"
            for detail, count in summary.details.items()
            if detail.startswith(f"{verdict}:")
        ]
        count = str(summary.counts[verdict]) + (f" ({', '.join(parts)})" if parts else "")
        axes.annotate(count, (high, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(rows, [_LABELS[verdict] for verdict in VERDICTS])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"% of {summary.n} questions\n{summary.next_step}", wrap=True)
