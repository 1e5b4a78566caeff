"""The library in data/, and notebook 10 itself on folders other than the handbook."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rag_lab import notebook
from rag_lab.documents import load_folder
from rag_lab.exercises import nb10
from tests.support.answer_doubles import Scripted
from tests.support.handbook_record import RECORD

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "10_your_documents.ipynb"


def test_library_holds_four_file_types_and_its_questions_name_its_files() -> None:
    with pytest.warns(UserWarning, match="3 of 13 files") as caught:
        documents = load_folder(nb10.LIBRARY)
    assert {Path(d.metadata["file"]).suffix for d in documents} == {".md", ".txt", ".html", ".pdf"}
    texts = {document.id: document.text for document in documents}
    assert texts["lift"] == "The lift in the library is out of order until 14 March."
    assert {right for _, _, right in nb10.LIBRARY_QUESTIONS} <= set(texts)
    said = str(caught[0].message)
    reasons = ("scan.pdf (holds no text)", "old.txt (not UTF-8", "members.csv (a table: save it as an HTML page)")
    assert all(reason in said for reason in reasons)


def run_cells(folder: Path) -> dict[str, Any]:
    """The notebook's code cells on another folder, without generated questions; its names at the end."""
    names: dict[str, Any] = {}
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code":
            source = cell.source.replace("FOLDER = HANDBOOK", f"FOLDER = {str(folder)!r}")
            exec(source.replace("PASSAGES = 6", "PASSAGES = 0"), names)
    assert names["FOLDER"] == folder.resolve()
    return names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, with a cache of its own; a TEST DOUBLE takes the language model's place."""
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(notebook, "language_model", lambda: Scripted(*["The sources do not say."] * 2))
    path = tmp_path / "פולדר 文件夹"
    path.mkdir()
    return path


def test_notebook_on_one_file_without_questions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "only.txt").write_text("A well.\n")
    names = run_cells(folder)
    assert names["rows"] == []
    printed = capsys.readouterr().out
    assert "0 questions are too few for a sweep" in printed
    assert (names["OUT"] / "index" / "vectors.npz").is_file()


def test_notebook_on_other_languages_and_file_types_with_questions(folder: Path) -> None:
    shutil.copytree(nb10.LIBRARY, folder, dirs_exist_ok=True)
    answers = {"fees": "двенадцать крон", "returns": "四个星期", "hours": "בצהריים", "parking": "برای اعضا"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = {document.id: document.text for document in load_folder(folder)}
    records = [RECORD | {"id": "negative", "text": "Who waters the plants?", "answers": [], "gold": []}]
    for _, text, right in nb10.LIBRARY_QUESTIONS[2:6]:
        start = texts[right].index(answers[right])
        gold = {"doc_id": right, "start": start, "end": start + len(answers[right]), "text": answers[right]}
        records.append(RECORD | {"id": right, "text": text, "answers": [answers[right]], "gold": [gold]})
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
    names = run_cells(folder)
    assert len(names["rows"]) == 24
    assert len(names["diagnoses"]) == 5
    assert names["rows_again"] == names["rows"]
    kept = {str(path.relative_to(names["OUT"])) for path in names["OUT"].rglob("*") if path.is_file()}
    assert {"report.html", "rows.jsonl", "settings.json", "sweep.yaml", "index/vectors.npz"} <= {
        Path(name).as_posix() for name in kept
    }
