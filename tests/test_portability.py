"""Linux, macOS and Windows: text is UTF-8 whatever the system's own encoding is, and calls are portable."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = sorted((PROJECT / "rag_lab").rglob("*.py"))
SOURCES = [
    *PACKAGE,
    *sorted((PROJECT / "notebooks").glob("*.py")),
    *sorted((PROJECT / "tests" / "benchmarks").glob("*.py")),
]
# The position of the encoding among the arguments, where it may stand without its name.
ENCODING_AT = {"read_text": 0, "write_text": 1, "open": 3}
ONE_SYSTEM = ("fcntl", "msvcrt", "pwd", "grp", "termios")


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Calls of functions and methods by their last name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            yield name, node


def without_encoding(source: str) -> list[int]:
    """Lines that open, read or write text without saying in which encoding."""
    lines = []
    for name, call in calls(ast.parse(source)):
        if name not in ENCODING_AT or any(word.arg in ("encoding", None) for word in call.keywords):
            continue
        is_path = isinstance(call.func, ast.Attribute)
        owner = getattr(getattr(call.func, "value", None), "id", "")
        if name == "open" and is_path and owner not in ("gzip", "io", "zipfile", "os"):
            mode_at, encoding_at = 0, 2  # path.open(mode, buffering, encoding)
        else:
            mode_at, encoding_at = 1, ENCODING_AT[name]
        if len(call.args) > encoding_at:
            continue
        if name == "open":
            given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[mode_at : mode_at + 1]
            mode = ast.unparse(given[0]) if given else "'r'"
            if "b" in mode or (owner == "gzip" and "t" not in mode) or owner in ("zipfile", "os", "_opener"):
                continue
        lines.append(call.lineno)
    return lines


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("open(p)", [1]),
        ("open(p, 'rb')", []),
        ("open(p, 'ab' if held else 'wb')", []),
        ("open(p, encoding='utf-8')", []),
        ("p.open('w')", [1]),
        ("p.open('wb')", []),
        ("gzip.open(p)", []),
        ("gzip.open(p, 'rt')", [1]),
        ("p.read_text()", [1]),
        ("p.read_text('utf-8')", []),
        ("p.write_text('a')\np.write_text('a', encoding='utf-8')", [1]),
    ],
)
def test_what_has_no_encoding_is_found(source: str, found: list[int]) -> None:
    assert without_encoding(source) == found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(PROJECT).as_posix())
def test_text_is_opened_with_an_encoding(path: Path) -> None:
    assert not without_encoding(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PACKAGE, ids=lambda p: p.relative_to(PROJECT).as_posix())
def test_nothing_of_one_system_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert not imported & set(ONE_SYSTEM)
    renames = [
        call.lineno
        for name, call in calls(tree)
        if name in ("rename", "symlink", "symlink_to", "fork") and ast.unparse(call.func) != "self.rename"
    ]
    assert not renames  # os.replace also replaces on Windows
    strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert not [s for s in strings if s.startswith(("/tmp/", "/home/", "C:\\"))]


@pytest.mark.parametrize("arguments", [["reproduce", "list", "--offline"], ["--help"]])
def test_commands_print_in_a_console_of_another_encoding(arguments: list[str]) -> None:
    """A Windows console may speak cp1252, which has no − and no →: what is printed must not end in an error."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUTF8"} | {"PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "rag_lab", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
