"""Read a folder of Markdown, text, HTML, Word and PDF files as documents."""

import os
import re
import tomllib
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
    """Read all Markdown, text, HTML, Word and PDF files below ``path``, in the order of their relative paths.

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
    documents, skipped, garbled = [], [], []
    for file in files:
        if file not in ids:
            skipped.append(f"{file} ({_REMEDIES.get(_suffix(file), 'not Markdown, text, HTML, Word or PDF')})")
            continue
        try:
            title, fields, text = _READERS[_suffix(file)]((root / file).read_bytes())
            if not text.strip():
                raise ValueError("holds no text")
        # A damaged file may raise anything (pypdf alone has dozens of errors). The warning says what.
        except Exception as error:
            skipped.append(f"{file} ({' '.join(str(error).split()) or type(error).__name__})")
            continue
        if unreadable := text.count("\ufffd"):
            garbled.append(f"{file} ({unreadable})")
        uri = str(fields.pop("uri", None) or "")
        title = title or PurePosixPath(file).stem
        documents.append(Document(ids[file], text, title, uri, {**fields, "file": file}))
    if not documents:
        found = f"skipped: {'; '.join(skipped)}" if skipped else "it has no files"
        raise ValueError(f"Nothing to read in {str(root)!r}: add Markdown, text, HTML, Word or PDF files ({found}).")
    if skipped:
        message = f"{len(skipped)} of {len(files)} files in {str(root)!r} were skipped: {'; '.join(skipped)}."
        warnings.warn(message, stacklevel=2)
    if garbled:
        message = f"Characters that are not in the encoding of their file were read as \ufffd: {'; '.join(garbled)}."
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
    """Without front matter and the blank lines above the body."""
    text = _decode(data)
    fields: dict[str, Any] | None = None
    front = re.match(
        r"(---|\+\+\+)[ \t]*\n(?![ \t]*\n)(.*?)^(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE
    )
    if front:
        fields = _toml(front[2]) if front[1] == "+++" else _yaml(front[2])
    if front and fields is not None:  # else --- is a thematic break
        text = text[front.end() :]
    fields = fields or {}
    text = re.sub(r"\A(?:[^\S\n]*\n)+", "", text)
    return str(fields.pop("title", None) or _first_heading(text)), fields, text


def _toml(source: str) -> dict[str, Any] | None:
    try:
        return _as_json(tomllib.loads(source))
    except tomllib.TOMLDecodeError:
        return None


def _yaml(source: str) -> dict[str, Any] | None:
    """The fields of YAML front matter; None if it is not a map. A map that is not valid YAML is read line by line."""
    import yaml

    class NoAliases(yaml.SafeLoader):
        """A few aliases of aliases are gigabytes when written out."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    try:
        fields = yaml.load(source, NoAliases)
    except (yaml.YAMLError, ValueError, RecursionError):
        lines = [line for line in source.split("\n") if line.strip()]
        pairs = [re.match(r"([^\W\d][\w -]*?)[ \t]*:(?:[ \t]+(.*?))?[ \t]*$", line) for line in lines]
        if not all(pair or line[0] in " \t-#" for pair, line in zip(pairs, lines, strict=True)):
            return None
        fields = {pair[1]: (pair[2] or "").strip("\"'") for pair in pairs if pair}
    return _as_json(fields or {}) if isinstance(fields, dict | None) else None


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


def _read_html(data: bytes) -> _Parts:
    from rag_lab.text import html

    title, text = html.page(data)
    return title or _first_heading(text), {}, text


def _read_word(data: bytes) -> _Parts:
    import mammoth

    return _read_html(mammoth.convert_to_html(BytesIO(data)).value.encode())


def _read_pdf(data: bytes) -> _Parts:
    from rag_lab.text import pdf

    text, pages = pdf.read(data)
    return "", {"pages": pages}, text


_READERS: dict[str, Callable[[bytes], _Parts]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": lambda data: ("", {}, _decode(data)),
    ".text": lambda data: ("", {}, _decode(data)),
    ".html": _read_html,
    ".htm": _read_html,
    ".xhtml": _read_html,
    ".docx": _read_word,
    ".pdf": _read_pdf,
}

# What to do with files that people have and that are not read.
_REMEDIES = {
    **dict.fromkeys((".doc", ".odt", ".rtf", ".pages"), "save it as .docx or PDF"),
    **dict.fromkeys((".ppt", ".pptx", ".odp", ".key"), "export it as PDF"),
    **dict.fromkeys((".csv", ".tsv", ".xls", ".xlsx", ".ods", ".numbers"), "a table: save it as an HTML page"),
    ".ipynb": "export it as Markdown or HTML",
    **dict.fromkeys((".epub", ".mobi", ".azw3"), "convert it to HTML or PDF"),
    **dict.fromkeys((".eml", ".msg", ".mht", ".mhtml"), "save it as an HTML page"),
}
