"""The notebook runner, on notebooks made here."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A copy of the runner with a notebook folder of its own."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    script = folder / "run.py"
    script.write_text((ROOT / "notebooks" / "run.py").read_text(encoding="utf-8"), encoding="utf-8")
    return script


def write(folder: Path, name: str, *cells: str) -> None:
    """A notebook of code cells."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(book, folder / f"{name}.ipynb")


def execute(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as a user would."""
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)


def test_counts_claims_and_writes_html(runner: Path) -> None:
    write(runner.parent, "good", "from rag_lab.notebook import claim\nclaim('one is one', True)\nclaim('b', True)")
    finished = execute(runner)
    assert finished.returncode == 0
    assert finished.stdout.splitlines()[-2].split() == ["good", finished.stdout.split()[-5], "2", "ok"]
    assert "one is one" in (runner.parent.parent / "build" / "good.html").read_text(encoding="utf-8")


def test_an_error_in_one_notebook_fails_the_run_and_the_others_still_run(runner: Path) -> None:
    write(runner.parent, "a_bad", "from rag_lab.notebook import claim", "claim('pigs fly', False)")
    write(runner.parent, "b_good", "print('fine')")
    finished = execute(runner)
    assert finished.returncode == 1
    assert "AssertionError" in finished.stderr + finished.stdout
    assert "pigs fly" in finished.stdout
    assert "b_good" in finished.stdout.splitlines()[-2]


def test_keys_and_hub_are_switched_off(runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    monkeypatch.setenv("RAG_LAB_MODE", "live")
    check = "import os\nassert 'ANTHROPIC_API_KEY' not in os.environ\nassert os.environ['RAG_LAB_MODE'] == 'offline'"
    write(runner.parent, "env", check, "assert os.environ['HF_HUB_OFFLINE'] == '1'")
    assert execute(runner).returncode == 0


def test_a_name_that_matches_nothing_is_refused(runner: Path) -> None:
    write(runner.parent, "good", "1")
    finished = execute(runner, "99")
    assert finished.returncode == 2
    assert "no notebook matches 99" in finished.stderr
