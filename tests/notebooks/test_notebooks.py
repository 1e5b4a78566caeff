"""Every notebook and every solution runs from top to bottom, offline, without an error."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def run(*arguments: str) -> None:
    command = [sys.executable, str(ROOT / "notebooks" / "run.py"), *arguments]
    finished = subprocess.run(command, capture_output=True, text=True)
    print(finished.stdout)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_a_notebook_runs(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_its_solutions_run(name: str) -> None:
    run("--solutions", name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_house_rules(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs or cell.execution_count for cell in code if cell.source.strip()), "run make notebooks"
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    claims = sum(cell.source.count("claim(") for cell in code)
    exercises = sum(cell.source.count("exercise(") for cell in code)
    assert claims >= 3
    assert exercises >= 3
    text = "\n".join(cell.source for cell in book.cells)
    assert "pip install" not in text
    assert (ROOT / "notebooks" / "solutions" / path.name).exists()
