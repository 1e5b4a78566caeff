"""Run the notebooks headless and offline, print a table and write rendered HTML to build/.

python notebooks/run.py [--in-place] [--solutions] [name ...]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter

from rag_lab import notebook, results

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parent / "build"
CELL_SECONDS = 600


def offline_environment() -> dict[str, str]:
    """This environment with the hub and every API switched off, whatever the user has set."""
    unset = ("ANTHROPIC_", "HF_TOKEN", "RAG_LAB_LLM", "RAG_LAB_ENCODER")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
    return {**kept, "RAG_LAB_MODE": "offline", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def run(path: Path, in_place: bool) -> tuple[float, int, str]:
    """Seconds, claims that held, and ``ok`` or the error of one notebook; its HTML is written in either case."""
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(
        book,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],  # the kernel's remarks about loopback sockets help nobody here
    )
    began, result = time.perf_counter(), "ok"
    try:
        client.execute(env=offline_environment())
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        result = f"{type(error).__name__}: {getattr(error, 'evalue', error)}"
        print(f"\n{path.name}\n{error}", file=sys.stderr)
    seconds = time.perf_counter() - began
    for cell in book.cells:
        # When each cell ran changes with every run and tells a reader nothing.
        cell.metadata.pop("execution", None)
    book.metadata.pop("widgets", None)  # the state of progress bars, which the outputs show as text too
    if in_place and result == "ok":
        nbformat.write(book, path)
    target = BUILD / path.relative_to(FOLDER).with_suffix(".html")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(book, path.stem), encoding="utf-8")
    return seconds, count_claims(book), result


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


def main() -> int:
    """Exit status 1 if any notebook failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="file names or beginnings of them; all where none is given")
    parser.add_argument("--in-place", action="store_true", help="keep the outputs in the notebooks themselves")
    parser.add_argument("--solutions", action="store_true", help="the solutions instead of the notebooks")
    asked = parser.parse_args()
    folder = FOLDER / "solutions" if asked.solutions else FOLDER
    paths = [p for p in sorted(folder.glob("*.ipynb")) if not asked.names or p.name.startswith(tuple(asked.names))]
    if not paths:
        parser.error(f"no notebook matches {' '.join(asked.names) or str(folder)}")
    rows = []
    for path in paths:
        print(f"running {path.name} ...", flush=True)
        rows.append((path.stem, *run(path, asked.in_place)))
    width = max(len(name) for name, *_ in rows)
    print(f"\n{'notebook':<{width}}  seconds  claims  result")
    for name, seconds, claims, result in rows:
        print(f"{name:<{width}}  {seconds:7.1f}  {claims:6d}  {result.splitlines()[0]}")
    print(f"rendered: {BUILD.name}/")
    if asked.in_place and not asked.solutions:
        times = results.measured_seconds() | {name: round(s, 1) for name, s, _, result in rows if result == "ok"}
        results.TIMES.write_text(json.dumps(times, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(any(result != "ok" for *_, result in rows))


if __name__ == "__main__":
    sys.exit(main())
