"""A question to a small folder, by the real encoder and the extractive reader."""

import warnings
from pathlib import Path

import pytest

from rag_lab.answering import folder as module
from rag_lab.answering.folder import ask, chunks_of, shown
from rag_lab.models.encoder import Encoder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "library.md").write_text("# Library\n\nThe reading room seats 80 people. Members pay 12 crowns.\n")
    (pages / "wells.txt").write_text("The town draws its water from two wells.\n")
    return pages


def test_an_answer_is_quoted_and_cited(folder: Path) -> None:
    found = ask(folder, "How many people does the reading room seat?")
    assert found.status == "answered"
    assert found.text.startswith("The reading room seats 80 people. [S")
    text = shown(found)
    assert "Library" in text
    assert "1 of 1 sentences cite a source." in text


def test_what_the_folder_does_not_say_is_refused(folder: Path) -> None:
    found = ask(folder, "Which moons does Jupiter have?")
    assert found.status == "refused"
    assert "threshold" in found.reason
    assert shown(found) == found.text
    assert ask(folder, "Which moons does Jupiter have?", threshold=-1.0).status == "answered"


def test_the_environment_names_the_encoder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_ENCODER", "no-such-encoder")
    with pytest.raises(FileNotFoundError, match="no-such-encoder"):
        ask(folder, "How many people does the reading room seat?")


def test_only_new_texts_are_embedded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load("minilm", dtype="float32")
    monkeypatch.setattr(module.Encoder, "load", lambda *_, **__: encoder)
    sizes: list[int] = []
    encode = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda texts, **kind: sizes.append(len(texts)) or encode(texts, **kind))
    module.index(chunks_of(folder), encoder, folder)
    module.index(chunks_of(folder), encoder, folder)
    assert sizes == [2]
    (folder / "wells.txt").write_text("The town draws its water from three wells.\n")
    module.index(chunks_of(folder), encoder, folder)
    assert sizes == [2, 1]


def test_files_that_are_not_read_are_told_once(folder: Path) -> None:
    def told() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ask(folder, "How many people does the reading room seat?")
        return [str(warning.message) for warning in caught]

    assert told() == []
    (folder / "questions.jsonl").write_text("{}\n")
    (first,) = told()
    assert "1 of 3 files" in first
    assert "questions.jsonl" in first
    assert told() == []
    (folder / "scan.pdf").write_bytes(b"no PDF")  # the texts are the same, what is missing is not
    (second,) = told()
    assert "scan.pdf" in second
    assert told() == []


def test_bad_input(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ((folder, " "), "ask something"),
        ((folder, "Who?", "extractive", 0), "1 chunk or more"),
        ((tmp_path / "empty", "Who?"), "Nothing to read"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(*arguments)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        ask(folder / "none", "Who?")
    with pytest.raises(FileNotFoundError, match="no-such-model"):
        ask(folder, "Who?", "./no-such-model")
