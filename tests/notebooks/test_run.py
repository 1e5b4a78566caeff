"""The notebook runner, on notebooks made here."""

import signal
import subprocess
import sys
import time
from importlib import util
from pathlib import Path
from types import ModuleType

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


def test_two_at_once_give_the_same_table(runner: Path) -> None:
    write(runner.parent, "a", "from rag_lab.notebook import claim\nclaim('a', True)")
    write(runner.parent, "b", "import os\nassert os.environ['OMP_NUM_THREADS']")
    finished = execute(runner, "--jobs", "2")
    assert finished.returncode == 0
    rows = [line.split() for line in finished.stdout.splitlines()[-3:-1]]
    assert [(row[0], row[2], row[3]) for row in rows] == [("a", "1", "ok"), ("b", "0", "ok")]
    assert "--jobs is 0" in execute(runner, "--jobs", "0").stderr


def test_piped_output_has_a_line_as_each_begins_and_ends_and_nothing_else(runner: Path) -> None:
    write(runner.parent, "a", "1")
    lines = execute(runner).stdout.splitlines()
    assert lines[0] == "running a ..."
    assert lines[1].startswith("a  ")
    assert lines[1].endswith(" s, 0 claims, ok")
    assert lines[2:4] == ["", "notebook  seconds  claims  result"]


def test_ctrl_c_ends_it_at_once_and_says_what_was_done(runner: Path) -> None:
    write(runner.parent, "a", "1")
    write(runner.parent, "b", "import time\ntime.sleep(300)")
    process = subprocess.Popen([sys.executable, runner], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while "running b" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)  # far less than the cell would take
    assert process.returncode == 130
    assert "interrupted" in errors
    done, cut = (line.split() for line in output.splitlines()[-3:-1])
    assert (done[0], done[3]) == ("a", "ok")
    assert (cut[0], *cut[3:]) == ("b", "not", "finished")


@pytest.fixture
def module() -> ModuleType:
    """The runner as a module."""
    spec = util.spec_from_file_location("notebook_runner", ROOT / "notebooks" / "run.py")
    assert spec
    assert spec.loader
    loaded = util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # its dataclass looks itself up there
    spec.loader.exec_module(loaded)
    return loaded


def test_time_left_is_scaled_by_what_the_ended_notebooks_took(module: ModuleType) -> None:
    ended = module.Run(Path("a.ipynb"), began=1.0, seconds=30.0, result="ok")
    waiting = [module.Run(Path("b.ipynb")), module.Run(Path("new.ipynb"))]
    expected = {"a": 10.0, "b": 20.0}  # this machine takes three times as long
    assert module.time_left([ended, *waiting], expected) == 60.0
    assert module.time_left([ended, *waiting], expected, jobs=2) == 30.0
    assert module.time_left(waiting, expected) == 20.0  # nothing to scale by yet
    assert module.time_left([ended], expected) == 0.0


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (200, "3 min 20 s")])
def test_minutes(module: ModuleType, seconds: float, text: str) -> None:
    assert module.minutes(seconds) == text


def test_what_is_no_notebook_fails_and_the_others_still_run(
    runner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    (tmp_path / "notebook_seconds.json").write_text("{", encoding="utf-8")
    (runner.parent / "a_bad.ipynb").write_text("no JSON", encoding="utf-8")
    write(runner.parent, "b_good", "1")
    finished = execute(runner)
    assert finished.returncode == 1
    assert "a_bad.ipynb is not a notebook" in finished.stdout
    assert finished.stdout.splitlines()[-2].endswith("ok")
