"""A sweep file's YAML with the line of every key, and errors that name it."""

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from rag_lab import settings

TOP = ("sweep_mode", "corpus", "documents", "questions", "fixed", "sweep")
MAPS = ("questions", "fixed", "sweep")  # maps in which become dotted keys


@dataclass(frozen=True)
class Entry:
    """A value and the line that its key stands in."""

    value: Any
    line: int


class SweepFile:
    """A sweep file that is being read: its name, for errors, and the folder that paths in it may be relative to."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name = name
        self.folder = folder

    def refuse(self, line: int, problem: str, kind: type[Exception] = ValueError) -> NoReturn:
        """Raise ``kind``, naming file and line."""
        raise kind(f"{self.name}, line {line}: {problem}")

    def unknown(self, line: int, key: str, known: Sequence[str]) -> NoReturn:
        """Refuse a key that is none of ``known``, naming the nearest."""
        near = difflib.get_close_matches(key, known, 1, 0.0)[0]
        self.refuse(line, f"there is no key {key!r}; the nearest is {near!r}.")

    @contextlib.contextmanager
    def at(self, line: int, what: str) -> Iterator[None]:
        """What goes wrong with a file or a name inside is refused with the line that names it."""
        try:
            yield
        except UnicodeDecodeError as error:
            self.refuse(line, f"{what}: it is not UTF-8 (byte {error.start}); save it as UTF-8.")
        except (ValueError, OSError) as error:
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
            self.refuse(line, f"{what}: {error}", kind)

    def find(self, entry: Entry, what: str) -> Path:
        """The path as it is, else beside the sweep file, else in ``data``."""
        if not isinstance(entry.value, str):
            self.refuse(entry.line, f"{what} is {entry.value!r}; give a path.")
        with self.at(entry.line, what):  # a name may be too long for the system
            for folder in filter(None, (Path(), self.folder, settings.DATA)):
                if (path := folder / Path(entry.value).expanduser()).exists():
                    return path
        self.refuse(entry.line, f"{what}: there is no {entry.value!r}; check the path.", FileNotFoundError)


def read_top(file: SweepFile, text: str) -> dict[str, Entry]:
    """The values by key; those of ``MAPS`` are again entries, by dotted key. Refuses what is no such file."""
    try:
        return _entries(file, yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        file.refuse(line, f"this is not YAML: {error.problem}.")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        file.refuse(line, f"this is not YAML: the character U+{ord(text[error.position]):04X} is not allowed.")
    except RecursionError:
        file.refuse(1, "it is nested too deep, or a map holds itself by an alias.")


def _entries(file: SweepFile, node: yaml.Node | None) -> dict[str, Entry]:
    if not isinstance(node, yaml.MappingNode):
        file.refuse(1, f"a sweep file is a map with the keys {', '.join(TOP)}.")
    found: dict[str, Entry] = {}
    for key, value, line in _pairs(file, node):
        if key not in TOP:
            file.unknown(line, key, TOP)
        if key in MAPS and isinstance(value, yaml.MappingNode):
            leaves: dict[str, Entry] = {}
            for name, entry in _leaves(file, value, ""):
                if name in leaves:  # once dotted, once as a map in a map
                    file.refuse(entry.line, f"{name} stands in line {leaves[name].line} too: leave one out.")
                leaves[name] = entry
            found[key] = Entry(leaves, line)
        else:
            found[key] = Entry(_value(file, value), line)
    return found


def _pairs(file: SweepFile, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, int]]:
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            file.refuse(key_node.start_mark.line + 1, "a key is a list or a map here; give a name.")
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in seen:
            file.refuse(line, f"{key} stands in line {seen[key]} too: leave one out.")
        seen[key] = line
        yield key, value, line


def _leaves(file: SweepFile, node: yaml.MappingNode, before: str) -> Iterator[tuple[str, Entry]]:
    for key, value, line in _pairs(file, node):
        if isinstance(value, yaml.MappingNode):
            yield from _leaves(file, value, f"{before}{key}.")
        else:
            yield f"{before}{key}", Entry(_value(file, value), line)


def _value(file: SweepFile, node: yaml.Node) -> Any:
    try:
        return yaml.SafeLoader("").construct_document(node)
    # PyYAML's own, and what Python raises inside it for the 13th month, "!!bool maybe" or "!!timestamp x".
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        problem = getattr(error, "problem", None) or error
        file.refuse(
            node.start_mark.line + 1, f"this value cannot be read ({problem}); put it in quotes if it is text."
        )
