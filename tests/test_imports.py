"""The package stays quick to import, and its modules import one way."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "rag_lab"
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("module", MODULES)
def test_nothing_heavy_is_imported_before_it_is_used(module: str) -> None:
    heavy = ("torch", "transformers", "anthropic", "matplotlib", "pypdf", "bm25s", "scipy")
    code = f"import sys, rag_lab.{module}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def imported(module: str) -> set[str]:
    """The package's own modules that a module imports when it runs, anywhere in it; not those for types only."""
    names: set[str] = set()
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    skipped = {id(inner) for node in for_types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "rag_lab":
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rag_lab."):
            names.add((node.module or "").split(".")[1])
    return names & set(MODULES)


def test_imports_have_no_circle() -> None:
    waiting = {module: imported(module) for module in MODULES}
    while ready := [module for module, needs in waiting.items() if not needs & waiting.keys()]:
        for module in ready:
            del waiting[module]
    assert not waiting, "these import each other in a circle"


def test_contributing_lists_every_module_above_those_that_import_it() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = text.split("<!-- modules -->")[1].split("<!-- /modules -->")[0]
    order = re.findall(r"\b[a-z]\w*", re.sub(r"\*\*.*?\*\*", "", listed))
    assert sorted(order) == [module for module in MODULES if not module.startswith("exercises_")]
    for place, module in enumerate(order):
        assert imported(module) <= set(order[:place]), module


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_waiting_threads_sleep_unless_the_user_has_chosen(given: dict[str, str], expected: str) -> None:
    """In the environment before torch, which reads it once."""
    code = "import os, sys, rag_lab; assert 'torch' not in sys.modules; print(os.environ.get('GOMP_SPINCOUNT'))"
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**kept, **given}
    )
    assert found.stdout.strip() == expected
