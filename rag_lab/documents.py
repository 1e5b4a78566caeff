"""Read a folder of Markdown, text, HTML and PDF files as documents."""

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
    """Read all Markdown, text, HTML and PDF files below ``path``, in the order of their relative paths.

    ``id`` is the file's relative POSIX path without suffix (with it, if files differ only in the suffix);
    ``metadata["file"]`` is the whole relative path. Line ends become ``\\n`` and a byte order mark is dropped, so
    that offsets agree on every system. Skips files and folders whose names begin with a dot. One warning names
    files that are of another type, unreadable or without text. Raises FileNotFoundError if the folder does not exist,
    NotADirectoryError if it is a file, ValueError if nothing in it can be read.
    """
    root = Path(path).expanduser()
    if not root.exists():
        raise FileNotFoundError(f"Folder {str(root)!r} does not exist; check the path.")
    if not root.is_dir():
        raise NotADirectoryError(f"{str(root)!r} is a file; give the folder that contains it.")
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
        # A damaged file may raise anything (pypdf alone has dozens of errors). The warning says what.
        except Exception as error:
            skipped.append(f"{file} ({' '.join(str(error).split()) or type(error).__name__})")
            continue
        uri = str(fields.pop("uri", None) or "")
        title = title or PurePosixPath(file).stem
        documents.append(Document(ids[file], text, title, uri, {**fields, "file": file}))
    if not documents:
        found = f"skipped: {'; '.join(skipped)}" if skipped else "it has no files"
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
        found += [Path(folder, name).relative_to(root).as_posix() for name in names if not name.startswith(".")]
    return sorted(found)


def _suffix(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


def _ids(files: list[str]) -> dict[str, str]:
    stems = {file: str(PurePosixPath(file).with_suffix("")) for file in files}
    count = Counter(stems.values())
    return {file: file if count[stem] > 1 or stem in stems else stem for file, stem in stems.items()}


# The title ("" if there is none), fields for the metadata, the text.
_Parts = tuple[str, dict[str, Any], str]


def _decode(data: bytes) -> str:
    try:
        return _unify_newlines(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error


def _unify_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_markdown(data: bytes) -> _Parts:
    """Without front matter and the blank lines above the body.

    python-frontmatter ignores front matter that is unclosed or not a mapping, and strips the body's own white space.
    """
    text = _decode(data)
    fields: dict[str, Any] = {}
    if re.match(r"---[ \t]*\n", text):
        front = re.match(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE)
        if front is None:
            raise ValueError("its front matter has no closing ---")
        fields, text = _front_matter(front[1]), text[front.end() :]
    text = re.sub(r"\A(?:[^\S\n]*\n)+", "", text)
    return str(fields.pop("title", None) or _first_heading(text)), fields, text


def _front_matter(source: str) -> dict[str, Any]:
    import yaml

    try:
        fields = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"its front matter is not YAML: {error}") from error
    if not isinstance(fields, dict | None):
        raise ValueError("its front matter is not a list of 'key: value' lines")
    return _as_json(fields or {})


def _as_json(value: Any) -> Any:
    """The value in JSON's types: dates as ISO strings, sets as sorted lists, keys as strings, at any depth."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _as_json(inner) for key, inner in value.items()}
    if isinstance(value, set):
        return sorted((_as_json(inner) for inner in value), key=str)
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value


def _first_heading(text: str) -> str:
    return next((heading.text for heading in headings(text) if heading.text), "")


_HIDDEN = {"head", "title", "script", "style", "noscript", "template", "iframe", "object", "video", "audio", "canvas"}
# Blocks that markdownify does not know, and inline markup that is left out: the text reads as on the page.
# fmt: off
_BLOCKS = ["address", "aside", "body", "details", "fieldset", "figure", "footer", "form", "header", "hgroup", "html",
           "main", "nav", "summary"]
_INLINE = ["a", "b", "code", "del", "em", "i", "img", "kbd", "s", "samp", "strong", "sub", "sup"]
# fmt: on


def _read_html(data: bytes) -> _Parts:
    """Visible text as Markdown: headings, lists, tables, quotes and fenced ``pre``; inline markup is left out."""
    from bs4 import BeautifulSoup, UnicodeDammit
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(UnicodeDammit(data, is_html=True).unicode_markup or "", "html5lib")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup.find_all(_is_hidden):
        tag.extract()
    for tag in soup.find_all([*_BLOCKS, "hr"]):
        tag.name = "br" if tag.name == "hr" else "div"
    converter = MarkdownConverter(
        heading_style="atx",
        bullets="-",
        strip=_INLINE,
        table_infer_header=True,
        escape_asterisks=False,
        escape_underscores=False,
        wrap=True,  # joins the lines of a paragraph
        wrap_width=None,
    )
    text = re.sub(r"  \n (?=\S)|[ \t]+\n", "\n", _unify_newlines(converter.convert_soup(soup)))  # br is "  \n"
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return title or _first_heading(text), {}, text


def _is_hidden(tag: Any) -> bool:
    style = str(tag.get("style") or "").replace(" ", "").lower()
    hidden = tag.name in _HIDDEN or tag.has_attr("hidden") or "display:none" in style or "visibility:hidden" in style
    return hidden or bool(re.fullmatch("h[1-6]", tag.name) and not tag.get_text(strip=True))


def _read_pdf(data: bytes) -> _Parts:
    """Pages joined by a blank line."""
    from pypdf import PdfReader

    pages = [page.extract_text().strip() for page in PdfReader(BytesIO(data)).pages]
    # Some fonts leave UTF-16 surrogates, which no tokenizer accepts: join the pairs, replace the rest.
    text = "\n\n".join(pages).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "", {}, _unify_newlines(text)


_READERS: dict[str, Callable[[bytes], _Parts]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": lambda data: ("", {}, _decode(data)),
    ".text": lambda data: ("", {}, _decode(data)),
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
}
