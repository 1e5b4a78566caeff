"""The command line: help, exit codes, and what each command hands on."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_lab import __main__ as command_line
from rag_lab import doctor
from rag_lab.answering import folder as ask_module
from rag_lab.evaluation import questions
from rag_lab.llm import load
from rag_lab.llm.spending import OverBudget
from rag_lab.sweeps import report, run
from tests.support.answers import DAYS, answer

main = command_line.main


@pytest.mark.parametrize("command", ["", "ask", "questions", "sweep", "fetch", "doctor", "readme"])
def test_help_has_an_example_and_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "exit codes:" in said
    assert f"python -m rag_lab {command or 'doctor'}" in said


@pytest.mark.parametrize(
    "arguments",
    [[], ["nothing"], ["ask", "folder"], ["ask", "f", "q", "-k", "0"], ["questions", "f"], ["fetch", "none"]],
)
def test_wrong_arguments_are_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(("status", "code"), [("answered", 0), ("error", 1), ("refused", 3), ("partial", 4)])
def test_ask_tells_the_status_by_its_code(
    status: Any, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = answer("28 days [S1].", status, [DAYS], reason="the reason")
    monkeypatch.setattr(ask_module, "ask", lambda *_: made)
    assert main(["ask", "folder", "How many days?"]) == code
    said = capsys.readouterr()
    assert ("28 days" in said.out) == (status != "error")
    assert f"{status}: the reason" in said.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("the sentence"), 1),
        (FileNotFoundError("the sentence"), 1),
        (OverBudget("the sentence"), 1),
        (LookupError("the sentence"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_are_a_sentence_and_a_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(ask_module, "ask", fails)
    assert main(["ask", "folder", "Who?"]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert ("the sentence" in said) == (code == 1)


def test_a_bug_is_shown_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_module, "ask", lambda *_: {}["missing"])
    with pytest.raises(KeyError):
        main(["ask", "folder", "Who?"])


def test_a_real_question_to_a_real_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "library.md").write_text("# Library\n\nThe reading room seats 80 people.\n")
    (tmp_path / "pages" / "data.bin").write_bytes(b"\0")
    folder = str(tmp_path / "pages")
    assert main(["ask", folder, "How many people does the reading room seat?"]) == 0
    said = capsys.readouterr()
    assert "The reading room seats 80 people. [S1]" in said.out
    assert said.err.startswith("note: 1 of 2 files")
    assert main(["ask", folder, "How many people does the reading room seat?", "--threshold", "1.1"]) == 3
    assert main(["ask", str(tmp_path / "none"), "Who?"]) == 1


def test_questions_are_limited_evenly_and_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for letter in "abcd":
        (tmp_path / f"{letter}.md").write_text(f"# {letter}\n\nA text.\n")
    asked: list[Any] = []
    records = [
        {"kind": "positive", "kept": False, "why": "duplicate"},
        {"kind": "negative", "kept": False, "why": "answered elsewhere"},
        {"kind": "negative", "kept": True, "why": ""},
    ]

    def generate(passages: Any, llm: Any, out: str, per: str) -> list[dict[str, Any]]:
        asked.append(([passage.doc_id for passage in passages], llm, out, per))
        return records

    monkeypatch.setattr(load, "load_llm", lambda name: name)
    monkeypatch.setattr(questions, "generate_questions", generate)
    assert main(["questions", str(tmp_path), "--out", "q.jsonl", "--limit", "2"]) == 0
    assert asked == [(["a", "c"], "smollm2", "q.jsonl", "chunk")]
    said = capsys.readouterr().out
    assert "positives: 0 of 1 kept; refused: duplicate 1" in said
    assert "answered in another document: 1 of 2 (50%)" in said


def test_a_sweep_of_a_file_ranks_it_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    config = tmp_path / "tiny.yaml"
    config.write_text(
        "sweep_mode: grid\nquestions: {sample: 6, seed: 0}\n"
        "fixed:\n  retrieval: {method: bm25}\nsweep:\n  retrieval.top_k: [1, 3]\n"
    )
    page, results = tmp_path / "report.html", tmp_path / "rows.jsonl"
    assert main(["sweep", str(config), "--results", str(results), "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "retrieval.top_k" in said
    assert page.exists()
    assert len([json.loads(line) for line in results.read_text().splitlines()]) == 2
    config.write_text("sweep_mode: grid\nsweep:\n  retrieval.topk: [1]\n")
    assert main(["sweep", str(config)]) == 1
    assert "retrieval.top_k" in capsys.readouterr().err


def test_failed_answers_of_a_sweep_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"counts": {"error": 2}}, {"counts": {"error": 1}}]
    seen: list[Any] = []
    monkeypatch.setattr(run, "run_sweep", lambda *arguments: seen.append(arguments) or rows)
    monkeypatch.setattr(report, "table", lambda *_: "")
    monkeypatch.setattr(report, "sentences", lambda *_: [])
    monkeypatch.setattr(command_line, "ProcessPoolExecutor", lambda n: _Pool(n))
    assert main(["sweep", "c.yaml", "--processes", "2"]) == 1
    assert "3 answers failed" in capsys.readouterr().err
    assert seen == [("c.yaml", 2, None)]


class _Pool(SimpleNamespace):
    """TEST DOUBLE: a pool that is its size."""

    def __init__(self, n: int) -> None:
        super().__init__(n=n)

    def __enter__(self) -> int:
        return int(self.n)

    def __exit__(self, *_: Any) -> None:
        pass


def test_doctor_hands_on_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "main", lambda: 1)
    assert main(["doctor"]) == 1
