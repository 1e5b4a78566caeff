"""Figures in one style that works in grey and for colour-blind readers: colour is never the only distinction."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.metrics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colour-blind-safe palette, ordered so that neighbours also differ in lightness.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}
LINES = ("-", "--", "-.", ":", "-", "--", "-.")


def new_figure(width: float = 7.0, height: float = 3.6, columns: int = 1, rows: int = 1) -> tuple["Figure", Any]:
    """A figure in this style, and its axes: one object, or an array if there are several rows or columns."""
    import matplotlib.pyplot as plt

    plt.rcParams.update(STYLE)
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained")
    return figure, axes


def show(figure: "Figure", alt: str) -> None:
    """Display a figure in a notebook with ``alt`` text for readers who cannot see it, and close it."""
    import matplotlib.pyplot as plt
    from IPython.display import Image, display

    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    display(Image(buffer.getvalue(), alt=alt))


def bars(
    labels: Sequence[str],
    series: Mapping[str, Sequence[Interval]] | Mapping[str, Sequence[float]],
    title: str,
    ylabel: str,
    alt: str,
    guesses: Mapping[str, Sequence[float]] | None = None,
    ylim: tuple[float, float] | None = None,
) -> None:
    """Show a figure of bars: a group per label, a colour per series. Intervals get whiskers, ``guesses`` are crosses.

    ``title`` says what the figure shows. ``guesses`` has a value per label for some of the series.
    """
    figure, axes = new_figure(width=9)
    values, whiskers = _split(series)
    grouped_bars(axes, labels, values, whiskers)
    places, width = np.arange(len(labels)), 0.8 / len(series)
    for name, guess in (guesses or {}).items():
        shift = (list(series).index(name) - (len(series) - 1) / 2) * width
        label = None if axes.get_legend_handles_labels()[1].count("my guess") else "my guess"
        axes.plot(places + shift, guess, "kx", markersize=9, markeredgewidth=2, label=label)
    axes.set(title=title, ylabel=ylabel, ylim=ylim)
    _legend_below(axes)
    show(figure, alt)


def curve(
    x: Sequence[float],
    series: Mapping[str, Sequence[Interval]] | Mapping[str, Sequence[float]],
    title: str,
    xlabel: str,
    ylabel: str,
    alt: str,
    ylim: tuple[float, float] | None = None,
    doubling: bool = False,
) -> None:
    """Show a figure of lines over ``x``, a band around each that has intervals; ``doubling``: x is logarithmic."""
    figure, axes = new_figure(width=9)
    values, bands = _split(series)
    bands = bands or {name: [(value, value) for value in line] for name, line in values.items()}
    points = {name: [(v, *band) for v, band in zip(line, bands[name], strict=True)] for name, line in values.items()}
    lines_with_intervals(axes, x, points)
    if doubling:
        doubling_axis(axes, [int(value) for value in x])
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel, ylim=ylim)
    _legend_below(axes)
    show(figure, alt)


def gains(labels: Sequence[str], series: Mapping[str, Sequence[Interval]], title: str, xlabel: str, alt: str) -> None:
    """Show a figure of paired differences with their intervals: a row per label, a mark per series."""
    figure, axes = new_figure(width=9, height=1.2 + 0.45 * len(labels) * max(1, len(series) / 2))
    differences(axes, labels, series)
    axes.set(title=title, xlabel=xlabel)
    if len(series) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    show(figure, alt)


def _legend_below(axes: "Axes") -> None:
    """The legend below the figure, where it hides nothing."""
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.18 if axes.get_xlabel() else -0.1))


def _split(
    series: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, list[float]], dict[str, list[tuple[float, float]]] | None]:
    """The values of each series, and their bounds if the values are intervals."""
    if not all(isinstance(value, Interval) for line in series.values() for value in line):
        return {name: list(line) for name, line in series.items()}, None
    values = {name: [one.value for one in line] for name, line in series.items()}
    return values, {name: [(one.low, one.high) for one in line] for name, line in series.items()}


def grouped_bars(
    axes: "Axes",
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    intervals: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> None:
    """A group of bars per label, one colour and hatch per series; ``intervals`` has (low, high) for each bar."""
    positions = np.arange(len(labels))
    width = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        centre = positions + (i - (len(series) - 1) / 2) * width
        error = np.abs(np.array(intervals[name]).T - np.asarray(values)) if intervals is not None else None
        axes.bar(
            centre,
            values,
            width * 0.94,
            yerr=error,
            label=name,
            color=COLOURS[i],
            hatch=HATCHES[i],
            edgecolor="white",
            error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": "#333333"},
        )
    axes.set_xticks(positions, labels)
    axes.grid(visible=False, axis="x")
    axes.legend()


def lines_with_intervals(
    axes: "Axes", x: Sequence[float], series: Mapping[str, Sequence[tuple[float, float, float]]]
) -> None:
    """A line for each series of (value, low, high) over ``x``; the interval is a band."""
    for i, (name, points) in enumerate(series.items()):
        value, low, high = np.array(points).T
        axes.plot(x, value, color=COLOURS[i], marker=MARKERS[i], linestyle=LINES[i], label=name)
        axes.fill_between(x, low, high, color=COLOURS[i], alpha=0.15, linewidth=0)
    axes.legend()


def doubling_axis(axes: "Axes", values: Sequence[int]) -> None:
    """A logarithmic x axis with a tick at each of ``values``, for sizes that double."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()


def heat_map(axes: "Axes", values: np.ndarray, columns: Sequence[str], rows: Sequence[str]) -> None:
    """``values`` (rows, columns) as shades that also work in grey, with the number in each cell."""
    axes.imshow(values, cmap="cividis", aspect="auto")
    middle = (values.min() + values.max()) / 2
    for (r, c), value in np.ndenumerate(values):
        axes.text(
            c, r, f"{value:.2f}", ha="center", va="center", fontsize=10, color="black" if value > middle else "w"
        )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.grid(visible=False)


def token_map(
    axes: "Axes", values: np.ndarray, tokens: Sequence[str], rows: Sequence[str], limits: tuple[float, float]
) -> Any:
    """``values`` (rows, tokens) as shades below the tokens; equal ``limits`` make several maps comparable.

    Returns the image, for ``figure.colorbar``.
    """
    image = axes.imshow(values, cmap="cividis", aspect="auto", vmin=limits[0], vmax=limits[1])
    axes.set_xticks(range(len(tokens)), tokens, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.grid(visible=False)
    axes.set_xticks(np.arange(len(tokens) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    return image


def differences(axes: "Axes", labels: Sequence[str], series: Mapping[str, Sequence[Interval]]) -> None:
    """Differences with their intervals, one row per label from the top, and a line at zero."""
    rows = np.arange(len(labels), dtype=float)
    axes.axvline(0, color="#333333", linewidth=1)
    for i, (name, intervals) in enumerate(series.items()):
        shift = (i - (len(series) - 1) / 2) * 0.24
        values, low, high = np.array([(one.value, one.low, one.high) for one in intervals]).T
        axes.errorbar(
            values,
            rows + shift,
            xerr=np.abs([values - low, high - values]),
            fmt=MARKERS[i],
            color=COLOURS[i],
            capsize=3,
            elinewidth=1.4,
            label=name,
        )
    axes.set_yticks(rows, labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
