"""The text of a PDF, without the lines that every page repeats."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from rag_lab.text.raised import lowered, raised

EDGE_LINES = 2  # of each page, above and below, that may be a header or footer
RAISED_SIZE = 0.85  # of the size of the text before
_END = re.compile(r"[.!?…。！？؟।:;][\"'”’»)\]]*$")


def read(data: bytes) -> tuple[str, list[int]]:
    """The text of all pages, and the offset at which each begins.

    Pages are joined by a blank line; where a sentence runs on, by a line end. Raises what pypdf raises for a file
    that is damaged or encrypted.
    """
    from pypdf import PdfReader

    text, starts = "", []
    for page in _without_repeated_lines([_page_text(page) for page in PdfReader(BytesIO(data)).pages]):
        if text and page:
            runs_on = not _END.search(text) and re.match(r"[^\W\d_]", page) and not page[0].isupper()
            text += "\n" if runs_on else "\n\n"
        starts.append(len(text))
        text += page
    return text, starts


def _page_text(page: Any) -> str:
    """A page's text; raised and lowered numbers are recognised by their smaller type."""
    pieces: list[tuple[str, float, float]] = []

    def visit(text: str, cm: Sequence[float], tm: Sequence[float], _: Any, size: float) -> None:
        scale = abs(tm[3] or tm[0]) * abs(cm[3] or cm[0])
        pieces.append((text, size * scale, tm[5] * abs(cm[3] or 1) + cm[5]))

    page.extract_text(visitor_text=visit)
    written, size, height = "", 0.0, 0.0
    for i, (piece, piece_size, piece_height) in enumerate(pieces):
        small = piece_size < RAISED_SIZE * size and re.fullmatch(r"[-−+]?\d{1,3}", piece.strip())
        if small and written[-1:] not in ("", "\n") and abs(piece_height - height) < size:
            written = written.rstrip(" ")
            after = pieces[i + 1][0] if i + 1 < len(pieces) else ""
            is_raised = piece_height >= height
            written += (
                raised(piece.strip(), written[-20:]) if is_raised else lowered(piece.strip(), written[-20:], after)
            )
            written += "\n" if piece.endswith("\n") else ""
        else:
            written += piece
            size, height = (piece_size, piece_height) if piece.strip() else (size, height)
    # Some fonts leave UTF-16 surrogates, which no tokenizer accepts: join the pairs, replace the rest.
    text = written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return re.sub(r" {2,}", " ", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def _without_repeated_lines(pages: Sequence[str]) -> list[str]:
    """Pages without headers and footers: a line at the same edge of most pages, alike but for the page number."""
    pages_of: Counter[str] = Counter()
    for number, page in enumerate(pages, 1):
        pages_of.update({key for key, _ in _edges(page.split("\n"), number)})
    repeated = {key for key, count in pages_of.items() if count >= 2 and count > len(pages) / 2}
    found = []
    for number, page in enumerate(pages, 1):
        lines = page.split("\n")
        dropped = {i for key, i in _edges(lines, number) if key in repeated}
        kept = "\n".join(line for i, line in enumerate(lines) if i not in dropped).strip()
        found.append(kept or page.strip())
    return found


def _edges(lines: Sequence[str], number: int) -> Iterator[tuple[str, int]]:
    """The first and last lines of a page, each as a key that repeats on other pages, with its index.

    In the key, a number below 1,000 is replaced by its distance to the page's own number.
    """
    shown = [i for i, line in enumerate(lines) if line.strip()]
    above, below = shown[:EDGE_LINES], shown[-EDGE_LINES:]
    for edge, indices in (("above", above), ("below", [i for i in below if i not in above])):
        for i in indices:
            line = " ".join(lines[i].split())
            yield f"{edge} {line}", i
            yield edge + " " + re.sub(r"(?<!\d)\d{1,3}(?!\d)", lambda n: f"#{int(n[0]) - number}", line, count=1), i
