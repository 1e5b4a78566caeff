"""Run the notebooks headless and offline, print a table and write rendered HTML to build/.

python notebooks/run.py [--all] [--in-place] [--solutions] [--jobs N] [name ...]

Core notebooks have a number (``02_late_chunking``), companions a number and a letter (``02b_boundaries``).
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter

from rag_lab import notebook, results, settings
from rag_lab.storage import write_atomic

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parent / "build"
CELL_SECONDS = 600
JOB_GB = 3.5  # memory of one notebook at its peak, with some to spare
REFRESH_SECONDS = 0.5


@dataclass
class Run:
    """One notebook as it runs. ``result`` is empty until it ends, then ``ok`` or the error."""

    path: Path
    cells: int = 0
    cell: int = 0
    began: float = 0.0
    seconds: float = 0.0
    claims: int = 0
    result: str = ""
    client: NotebookClient | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The file name without its suffix."""
        return self.path.stem

    @property
    def elapsed(self) -> float:
        """Seconds so far, or in all if it has ended."""
        return self.seconds if self.result else time.perf_counter() - self.began if self.began else 0.0

    def line(self) -> str:
        """What is printed when it ends."""
        return f"{self.name}  {self.seconds:.1f} s, {self.claims} claims, {self.result.splitlines()[0]}"


def is_core(name: str) -> bool:
    """Whether a notebook is part of the course, and not a companion."""
    return not re.match(r"\d\d[a-z]_", name)


def offline_environment(threads: int | None = None) -> dict[str, str]:
    """This environment with the hub and every API switched off, whatever the user has set."""
    unset = ("ANTHROPIC_", "HF_TOKEN", "RAG_LAB_LLM", "RAG_LAB_ENCODER")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
    offline = {"RAG_LAB_MODE": "offline", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return {**kept, **offline} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})


def execute(run: Run, in_place: bool, threads: int | None = None) -> None:
    """Run one notebook, and write its HTML whether it succeeds or fails."""
    run.began = time.perf_counter()
    try:
        book = nbformat.read(run.path, as_version=4)
    except ValueError as error:
        run.seconds, run.result = run.elapsed, f"{type(error).__name__}: {run.path.name} is not a notebook"
        return
    code = [i for i, cell in enumerate(book.cells) if cell.cell_type == "code"]
    run.cells = len(code)

    def started(cell: nbformat.NotebookNode, cell_index: int) -> None:
        if cell_index in code:
            run.cell = code.index(cell_index) + 1

    run.client = NotebookClient(
        book,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(run.path.parent)}},
        extra_arguments=["--log-level=ERROR"],  # the kernel's remarks about loopback sockets help nobody here
        on_cell_start=started,
    )
    result = "ok"
    try:
        run.client.execute(env=offline_environment(threads))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        result = f"{type(error).__name__}: {getattr(error, 'evalue', error)}"
        print(f"\n{run.path.name}\n{error}", file=sys.stderr)
    for cell in book.cells:
        # When each cell ran changes with every run and tells a reader nothing.
        cell.metadata.pop("execution", None)
    book.metadata.pop("widgets", None)  # the state of progress bars, which the outputs show as text too
    if in_place and result == "ok":
        nbformat.write(book, run.path)
    target = BUILD / run.path.relative_to(FOLDER).with_suffix(".html")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(book, run.name), encoding="utf-8")
    run.seconds, run.claims, run.result = run.elapsed, count_claims(book), result


def render(book: nbformat.NotebookNode, title: str) -> str:
    """The notebook as HTML, its figures with the alt texts of their outputs, which nbconvert's lab template drops."""
    html, _ = HTMLExporter().from_notebook_node(book, resources={"metadata": {"name": title}})
    soup = BeautifulSoup(html, "html.parser")
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    figures = [output.metadata.get("image/png", {}) for output in outputs if "image/png" in output.get("data", {})]
    for image, metadata in zip(soup.select(".jp-OutputArea-output img"), figures, strict=True):
        image["alt"] = metadata.get("alt", "a figure")
    return str(soup)


def count_claims(book: nbformat.NotebookNode) -> int:
    """Lines in the outputs that say that a claim held."""
    texts = (o.get("text", "") for cell in book.cells for o in cell.get("outputs", []))
    return sum(line.startswith(notebook.CLAIM_PREFIX) for text in texts for line in text.splitlines())


def time_left(runs: Sequence[Run], expected: dict[str, float], jobs: int = 1) -> float:
    """Seconds until all ``runs`` have ended.

    ``expected``: seconds per notebook, of this machine or another. They are scaled by what the notebooks that have
    ended took here. A notebook that takes longer than expected adds nothing.
    """
    ended = [run for run in runs if run.result and run.name in expected]
    known = sum(expected[run.name] for run in ended)
    scale = sum(run.seconds for run in ended) / known if known else 1.0
    waiting = [run for run in runs if not run.result]
    return sum(max(0.0, expected.get(run.name, 0.0) * scale - run.elapsed) for run in waiting) / jobs


def minutes(seconds: float) -> str:
    """Seconds as "45 s" or "3 min 20 s"."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


def status(runs: Sequence[Run], expected: dict[str, float], jobs: int) -> str:
    """The line that shows life: what runs, its cell, seconds so far and the time left."""
    running = [run for run in runs if run.began and not run.result]
    parts = [f"{run.name}, cell {run.cell} of {run.cells}, {minutes(run.elapsed)}" for run in running]
    return "; ".join([f"about {minutes(time_left(runs, expected, jobs))} left", *parts])


def jobs_that_fit(wanted: int) -> int:
    """``wanted``, or fewer if there is not enough free memory; 1 at least."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (AttributeError, ValueError, OSError):  # not on every system
        return wanted
    fit = max(1, min(wanted, int(free // JOB_GB)))
    if fit < wanted:
        print(f"{free:.1f} GB of memory are free and each notebook may take {JOB_GB} GB: running {fit} at once.")
    return fit


def run_all(runs: Sequence[Run], in_place: bool, jobs: int, expected: dict[str, float]) -> bool:
    """Execute ``runs``, ``jobs`` at once, showing progress; False if Ctrl-C ended it."""
    live = sys.stdout.isatty()
    threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else None
    pool = ThreadPoolExecutor(max_workers=jobs)
    futures: dict[Future[None], Run] = {pool.submit(execute, run, in_place, threads): run for run in runs}
    waiting, shown = set(futures), set()
    try:
        while waiting:
            ended, waiting = wait(waiting, timeout=REFRESH_SECONDS, return_when="FIRST_COMPLETED")
            for run in runs:
                if not live and run.began and run.name not in shown:
                    shown.add(run.name)
                    print(f"running {run.name} ...", flush=True)
            for future in ended:
                future.result()  # raises what is no failure of a cell
                print(f"\r\033[K{futures[future].line()}" if live else futures[future].line(), flush=True)
            if live and waiting:
                print(f"\r\033[K{status(runs, expected, jobs)}"[: 5 + _columns()], end="", flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted: ending the kernels", file=sys.stderr)
        pool.shutdown(wait=False, cancel_futures=True)
        for run in runs:
            if run.began and not run.result and run.client and run.client.km and run.client.km.provisioner:
                run.client.km.provisioner.process.kill()
        return False
    pool.shutdown()
    return True


def _columns() -> int:
    return os.get_terminal_size().columns - 1


def main() -> int:
    """Exit status 1 if any notebook failed, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of file names; by default the core notebooks")
    parser.add_argument("--all", action="store_true", help="the companion notebooks too")
    parser.add_argument("--in-place", action="store_true", help="keep the outputs in the notebooks themselves")
    parser.add_argument("--solutions", action="store_true", help="the solutions instead of the notebooks")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at once; each then has its share of the cores")
    asked = parser.parse_args()
    if asked.jobs < 1:
        parser.error(f"--jobs is {asked.jobs}; it is 1 or more")
    folder = FOLDER / "solutions" if asked.solutions else FOLDER
    beginnings = tuple(asked.names) or ("",)
    paths = [p for p in sorted(folder.glob("*.ipynb")) if p.name.startswith(beginnings)]
    if not asked.names and not asked.all:
        paths = [p for p in paths if is_core(p.name)]
    if not paths:
        parser.error(f"no notebook matches {' '.join(asked.names) or str(folder)}")
    here = settings.cache_folder() / ("solution_seconds.json" if asked.solutions else "notebook_seconds.json")
    try:
        measured = json.loads(here.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there yet, or broken: only the time left is estimated from it
        measured = {}
    runs = [Run(path) for path in paths]
    finished = run_all(runs, asked.in_place, jobs_that_fit(asked.jobs), results.measured_seconds() | measured)
    width = max(len(run.name) for run in runs)
    print(f"\n{'notebook':<{width}}  seconds  claims  result")
    for run in runs:
        result = (run.result or "not finished").splitlines()[0]
        print(f"{run.name:<{width}}  {run.elapsed:7.1f}  {run.claims:6d}  {result}")
    print(f"rendered: {BUILD.name}/")
    ended = {run.name: round(run.seconds, 1) for run in runs if run.result == "ok"}
    write_atomic(here, json.dumps(measured | ended, indent=1))
    if asked.in_place and not asked.solutions:
        times = results.measured_seconds() | ended
        write_atomic(results.TIMES, json.dumps(times, indent=1, sort_keys=True) + "\n")
    if not finished:
        # The threads that waited for the kernels may not end by themselves.
        sys.stdout.flush()
        os._exit(130)
    return int(any(run.result != "ok" for run in runs))


if __name__ == "__main__":
    sys.exit(main())
