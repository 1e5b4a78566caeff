"""The package stays quick to import, and what `rag_lab` and its rooms export is there."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rag_lab

PACKAGE = Path(__file__).resolve().parent.parent / "rag_lab"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.stem != "__main__"
)
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
# Imports each module as the first of rag_lab, so that none depends on another having been imported before.
EACH_ALONE = """
import importlib, sys
for module in {modules}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rag_lab"]:
        del sys.modules[name]
    importlib.import_module(module)
    if found := [name for name in {heavy} if name in sys.modules]:
        sys.exit(f"{{module}} imports {{found}}")
"""
HEAVY = ("torch", "transformers", "anthropic", "matplotlib", "pypdf", "bm25s", "scipy", "pandas", "IPython")


def run(code: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    done = run(EACH_ALONE.format(modules=MODULES, heavy=HEAVY))
    assert done.returncode == 0, done.stderr


def test_the_package_starts_without_its_dependencies() -> None:
    """``python -m rag_lab doctor`` has to say what is missing."""
    code = "import sys; sys.modules['numpy'] = sys.modules['yaml'] = None; import rag_lab.__main__, rag_lab.doctor"
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_what_is_exported_is_what_its_module_defines() -> None:
    assert {"BERLIN", "DenseIndex", "LocalLLM", "Prompt", "load_corpus", "metrics", "notebook"} <= set(dir(rag_lab))
    for name in rag_lab.__all__:
        value = getattr(rag_lab, name)
        module = value.__name__ if name in rag_lab._MODULES else getattr(value, "__module__", "rag_lab")
        assert module.startswith("rag_lab"), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rag_lab.nothing  # noqa: B018


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_exports_its_verbs(room: str) -> None:
    module = importlib.import_module(f"rag_lab.{room}")
    assert module.__doc__
    assert module.__all__ == sorted(set(module.__all__), key=module.__all__.index)
    assert all(hasattr(module, name) for name in module.__all__)
    assert not {name for name in rag_lab._MODULE_OF if hasattr(module, name)} - set(module.__all__)


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_waiting_threads_sleep_unless_the_user_has_chosen(given: dict[str, str], expected: str) -> None:
    """In the environment before torch, which reads it once."""
    code = "import os, sys, rag_lab; assert 'torch' not in sys.modules; print(os.environ.get('GOMP_SPINCOUNT'))"
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = run(code, {**kept, **given})
    assert done.stdout.strip() == expected, done.stderr
