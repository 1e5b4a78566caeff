"""A sweep file's YAML with the line of every key, and errors that name it."""

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

    def find(self, entry: Entry, what: str) -> Path:
        """The path as it is, else beside the sweep file, else in ``data``."""
        if not isinstance(entry.value, str):
            self.refuse(entry.line, f"{what} is {entry.value!r}; give a path.")
        for folder in filter(None, (Path(), self.folder, settings.DATA)):
            if (path := folder / Path(entry.value).expanduser()).exists():
                return path
        self.refuse(entry.line, f"{what}: there is no {entry.value!r}; check the path.", FileNotFoundError)


def read_top(file: SweepFile, text: str) -> dict[str, Entry]:
    """The values by key; those of ``MAPS`` are again entries, by dotted key. Refuses what is no such file."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        file.refuse(line, f"this is not YAML: {error.problem}.")
    if not isinstance(node, yaml.MappingNode):
        file.refuse(1, f"a sweep file is a map with the keys {', '.join(TOP)}.")
    found: dict[str, Entry] = {}
    for key, value, line in _pairs(file, node):
        if key not in TOP:
            file.unknown(line, key, TOP)
        if key in MAPS and isinstance(value, yaml.MappingNode):
            found[key] = Entry(dict(_leaves(file, value, "")), line)
        else:
            found[key] = Entry(_value(value), line)
    return found


def _pairs(file: SweepFile, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, int]]:
    seen: dict[str, int] = {}
    for key_node, value in node.value:
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
            yield f"{before}{key}", Entry(_value(value), line)


def _value(node: yaml.Node) -> Any:
    return yaml.SafeLoader("").construct_document(node)
