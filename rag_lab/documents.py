"""Documents, the chunks cut from them, and the reading of a folder of files."""

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import date
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from rag_lab.text.segmentation import headings
from rag_lab.types import Document


def load_folder(path: str | Path) -> list[Document]:
    """Read every Markdown, text, HTML and PDF file under ``path``, in the order of their relative paths.

    ``id`` is the file's relative POSIX path without its suffix (with it, where two files differ only in that);
    ``metadata["file"]`` is the whole of it. Line ends become ``\\n`` and a byte order mark at the beginning is left
    out, so that offsets agree on every system. Files and folders whose name begins with a dot are left out. Files of
    another type, and those that cannot be read or hold no text, are named in one warning. Raises FileNotFoundError
    if there is no such folder, NotADirectoryError for a file, ValueError if nothing in the folder can be read.
    """
    root = Path(path).expanduser()
    if not root.exists():
        raise FileNotFoundError(f"There is no folder {str(root)!r}; check the path.")
    if not root.is_dir():
        raise NotADirectoryError(f"{str(root)!r} is a file; name the folder that holds it.")
    files = _visible_files(root)
    ids = _ids([file for file in files if _suffix(file) in _READERS])
    documents, skipped = [], []
    for file in files:
        if file not in ids:
            skipped.append(f"{file} (not Markdown, text, HTML or PDF)")
            continue
        try:
            title, fields, text = _READERS[_suffix(file)]((root / file).read_bytes())
            if not text.strip():
                raise ValueError("holds no text")
        # A damaged file may raise anything (pypdf alone has dozens of ways): the warning says what, the rest is read.
        except Exception as error:
            skipped.append(f"{file} ({' '.join(str(error).split()) or type(error).__name__})")
            continue
        uri = str(fields.pop("uri", None) or "")
        title = title or PurePosixPath(file).stem
        documents.append(Document(ids[file], text, title, uri, {**fields, "file": file}))
    if not documents:
        found = f"skipped: {'; '.join(skipped)}" if skipped else "it holds no files"
        raise ValueError(f"Nothing to read in {str(root)!r}: add Markdown, text, HTML or PDF files ({found}).")
    if skipped:
        message = f"{len(skipped)} of {len(files)} files in {str(root)!r} were skipped: {'; '.join(skipped)}."
        warnings.warn(message, stacklevel=2)
    return documents


def _visible_files(root: Path) -> list[str]:
    """Relative POSIX paths, sorted."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        visible = [name for name in names if not name.startswith(".")]
        found += [(Path(folder) / name).relative_to(root).as_posix() for name in visible]
    return sorted(found)


def _suffix(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


def _ids(files: list[str]) -> dict[str, str]:
    stems = {file: str(PurePosixPath(file).with_suffix("")) for file in files}
    count = Counter(stems.values())
    return {file: file if count[stem] > 1 or stem in stems else stem for file, stem in stems.items()}


# What a reader returns: the title ("" if there is none), fields for the metadata, the text.
_Parts = tuple[str, dict[str, Any], str]


def _decode(data: bytes) -> str:
    try:
        return _unify_newlines(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error


def _unify_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_text(data: bytes) -> _Parts:
    return "", {}, _decode(data)


def _read_markdown(data: bytes) -> _Parts:
    """Front matter and the blank lines above the body are taken off."""
    text = _decode(data)
    fields: dict[str, Any] = {}
    if re.match(r"---[ \t]*\n", text):
        front = re.match(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE)
        if front is None:
            raise ValueError("its front matter has no closing ---")
        fields = _front_matter(front[1])
        text = text[front.end() :]
    text = re.sub(r"\A(?:[^\S\n]*\n)+", "", text)
    return str(fields.pop("title", None) or _first_heading(text)), fields, text


def _front_matter(source: str) -> dict[str, Any]:
    """Keys as strings; dates as ISO strings, so that metadata can be sorted and written as JSON."""
    import yaml

    try:
        fields = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"its front matter is not YAML: {error}") from error
    if not isinstance(fields, dict | None):
        raise ValueError("its front matter is not a list of 'key: value' lines")
    return {str(key): _writable(value) for key, value in (fields or {}).items()}


def _writable(value: Any) -> Any:
    """The value in JSON's types: dates as ISO strings, sets as sorted lists, keys as strings, at any depth."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _writable(inner) for key, inner in value.items()}
    if isinstance(value, set):
        return sorted((_writable(inner) for inner in value), key=str)
    if isinstance(value, list | tuple):
        return [_writable(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value


def _first_heading(text: str) -> str:
    return next((heading.text for heading in headings(text) if heading.text), "")


_INVISIBLE = {"head", "title", "script", "style", "noscript", "template"}
_BLOCK = re.compile(
    "address|article|aside|blockquote|body|caption|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|header"
    "|hr|main|nav|ol|p|section|summary|table|ul"
)
_AROUND = {"br": ("\n", ""), "li": ("\n- ", ""), "tr": ("\n", ""), "td": ("", " "), "th": ("", " ")}


def _read_html(data: bytes) -> _Parts:
    """Visible text as simple Markdown: ``#`` headings, ``-`` items, fenced ``pre``, a line a table row."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(data, "html.parser")
    pieces: list[str] = []
    _add_visible(soup, pieces)
    text = re.sub(r"[ \t]+\n", "\n", _unify_newlines("".join(pieces)))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    return title or _first_heading(text), {}, text


def _add_visible(node: Any, pieces: list[str]) -> None:
    """Append the visible text of a bs4 node and of all below it."""
    from bs4.element import NavigableString, PreformattedString

    if isinstance(node, NavigableString):
        # Comments, doctypes and the like are PreformattedStrings. White space collapses, as a browser shows it.
        text = "" if isinstance(node, PreformattedString) else re.sub(r"[ \t\r\n\f]+", " ", node)
        if not pieces or pieces[-1].endswith((" ", "\n")):
            text = text.lstrip(" ")
        if text:
            pieces.append(text)
        return
    style = str(node.get("style") or "").replace(" ", "").lower()
    if node.name in _INVISIBLE or node.has_attr("hidden") or "display:none" in style or "visibility:hidden" in style:
        return
    if node.name == "pre":
        pieces.append(f"\n\n```\n{node.get_text().strip(chr(10))}\n```\n\n")
        return
    if re.fullmatch("h[1-6]", node.name):
        inner: list[str] = []
        for child in node.children:
            _add_visible(child, inner)
        title = " ".join("".join(inner).split())
        pieces.append(f"\n\n{'#' * int(node.name[1])} {title}\n\n" if title else "")
        return
    block = ("\n\n", "\n\n") if _BLOCK.fullmatch(node.name) else ("", "")
    before, after = _AROUND.get(node.name, block)
    pieces.append(before)
    for child in node.children:
        _add_visible(child, pieces)
    pieces.append(after)


def _read_pdf(data: bytes) -> _Parts:
    """Pages joined by a blank line."""
    from pypdf import PdfReader

    pages = [page.extract_text().strip() for page in PdfReader(BytesIO(data)).pages]
    # Some fonts leave UTF-16 surrogates behind, which no tokenizer takes: join the pairs, mark the rest.
    text = "\n\n".join(pages).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "", {}, _unify_newlines(text)


_READERS: dict[str, Callable[[bytes], _Parts]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": _read_text,
    ".text": _read_text,
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
}
