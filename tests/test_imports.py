"""The package stays quick to import, and its modules import one way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "rag_lab"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if not path.stem.startswith("__")
)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_heavy_is_imported_before_it_is_used(module: str) -> None:
    heavy = ("torch", "transformers", "anthropic", "matplotlib", "pypdf", "bm25s", "scipy")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


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
