"""Write a printable page for each notebook, and slides, to build/handouts/.

python notebooks/handouts.py [--scripts FOLDER]

A page has a notebook's title and opening, what it shows, the claims that its last run supported, and its limits, all
taken from the notebook. Slides are nbconvert's, of the cells that have a tag: slide, subslide, fragment or notes.
"""

import argparse
import re
import sys
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from nbconvert import SlidesExporter

from rag_lab.notebook import CLAIM_PREFIX

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parent / "build" / "handouts"
PLACES = ("slide", "subslide", "fragment", "notes")
CODE_LINES = 9  # longer code leaves no room on a slide for what it prints
LAST = ("What this run supports", "Exercises", "Limits", "What to read next")
STYLE = """
body { font: 11pt/1.4 sans-serif; max-width: 44em; margin: 2em auto; color: #000; background: #fff; }
section { break-after: page; } h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin-bottom: 0; }
@media print { /* so that each notebook keeps to one side of A4 */
  @page { size: A4; margin: 12mm; } body { font: 8.5pt/1.3 sans-serif; margin: 0; max-width: none; }
  h1, h2, p, ul { margin: 0.4em 0 0.2em; }
}
"""
SLIDE_STYLE = "<style>.jp-OutputArea-output pre { word-break: normal; }</style>"  # nbconvert's breaks inside words


def main() -> int:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    help_scripts = "a node_modules folder with reveal.js 4, requirejs and jquery; by default their public addresses"
    parser.add_argument("--scripts", type=Path, help=help_scripts)
    asked = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    books = {path.stem: nbformat.read(path, as_version=4) for path in sorted(FOLDER.glob("[0-9]*.ipynb"))}
    for cell in (cell for book in books.values() for cell in book.cells):  # links, seen from the folder of handouts
        cell.source = cell.source.replace("](GLOSSARY.md", "](../../notebooks/GLOSSARY.md")
    pages = "\n".join(page(book) for book in books.values())
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Summaries</title><style>{STYLE}</style>'
    (BUILD / "summaries.html").write_text(head + pages, encoding="utf-8")
    # Wide enough for a printed line. What is longer than a slide scrolls; without it, what is below the edge is lost.
    size = {"reveal_width": "1100", "reveal_height": "760", "reveal_scroll": True}
    exporter = SlidesExporter(exclude_input_prompt=True, exclude_output_prompt=True, **size, **scripts(asked.scripts))
    for name, book in books.items():
        slides, _ = exporter.from_notebook_node(placed(book), resources={"metadata": {"name": name}})
        (BUILD / f"{name}.slides.html").write_text(
            slides.replace("</head>", f"{SLIDE_STYLE}</head>", 1), encoding="utf-8"
        )
    print(f"{len(books)} summaries and slides: build/handouts/")
    return 0


def page(book: nbformat.NotebookNode) -> str:
    """The one-page summary of a notebook as an HTML section."""
    parts = sections(book)
    (title, opening), *rest = parts.items()
    shows = [f"- {heading}" for heading in rest_headings(parts)]
    claims = [f"- {claim}" for claim in supported(book)] or ["- (not run yet)"]
    written = [f"# {title}", opening, "## What it shows", *shows, "", "## What its last run supported", *claims, ""]
    for heading in ("Limits", "What to read next"):
        if heading in dict(rest):
            written += [f"## {heading}", parts[heading], ""]
    return f"<section>{MarkdownIt().render(chr(10).join(written))}</section>"


def sections(book: nbformat.NotebookNode) -> dict[str, str]:
    """The text under each heading of level one and two, Markdown cells only, up to the first code cell below it."""
    found: dict[str, str] = {}
    heading = ""
    for cell in book.cells:
        if cell.cell_type != "markdown":
            heading = ""
            continue
        for line in cell.source.splitlines():
            if line.startswith(("# ", "## ")):
                heading = line.lstrip("# ")
                found[heading] = ""
            elif heading:
                found[heading] += line + "\n"
    return found


def rest_headings(parts: dict[str, str]) -> list[str]:
    """The headings between the title and what every notebook ends with."""
    return [heading for heading in list(parts)[1:] if heading not in LAST]


def supported(book: nbformat.NotebookNode) -> list[str]:
    """The sentences of the claims that held, as Markdown in which nothing is markup."""
    texts = (output.get("text", "") for cell in book.cells for output in cell.get("outputs", []))
    lines = (line for text in texts for line in text.splitlines() if line.startswith(CLAIM_PREFIX))
    return [re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", line.removeprefix(CLAIM_PREFIX)) for line in lines]


def scripts(folder: Path | None) -> dict[str, str]:
    """Where the slides find the scripts that they load, as options of nbconvert's exporter."""
    if folder is None:
        return {}
    found = {"reveal_url_prefix": "reveal.js", "require_js_url": "requirejs/require.js"}
    found["jquery_url"] = "jquery/dist/jquery.min.js"
    missing = [path for path in found.values() if not (folder / path).exists()]
    if missing:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}: npm install reveal.js@4 requirejs jquery")
    return {option: (folder.resolve() / path).as_uri() for option, path in found.items()}


def placed(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the place of every cell in the slides, and what of it is shown, where nbconvert reads it."""
    for cell in book.cells:
        tags = [tag for tag in cell.metadata.get("tags", []) if tag in PLACES]
        cell.metadata["slideshow"] = {"slide_type": tags[0] if tags else "skip"}
        if cell.cell_type == "code":
            cell.metadata["transient"] = {"remove_source": not shows_code(cell)}
    return book


def shows_code(cell: nbformat.NotebookNode) -> bool:
    """Whether a slide has room for a cell's code: short, and neither a figure nor claims below it."""
    figure = any("image/png" in output.get("data", {}) for output in cell.outputs)
    claims = any(output.get("text", "").startswith(CLAIM_PREFIX) for output in cell.outputs)
    return not figure and not claims and len(cell.source.splitlines()) <= CODE_LINES


if __name__ == "__main__":
    sys.exit(main())
