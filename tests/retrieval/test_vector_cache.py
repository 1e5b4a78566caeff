"""rag_lab.retrieval.vector_cache: embedded once, dropped when nobody uses it, nothing lost by an interruption."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rag_lab.retrieval import vector_cache
from rag_lab.retrieval.vector_cache import encode_cached


class Lengths:
    """An encoder double: a text's vector is its length and 1; it counts what it embeds."""

    dimension = 2
    files = SimpleNamespace(name="double")
    model = SimpleNamespace(dtype="float32")

    def __init__(self, dies_after: int = 10**9) -> None:
        self.embedded: list[str] = []
        self.dies_after = dies_after

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if len(self.embedded) >= self.dies_after:
            raise KeyboardInterrupt
        self.embedded += texts
        return np.array([[len(text), 1] for text in texts], np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(vector_cache, "model_identity", lambda name: [name])
    return tmp_path


def count(cache: Path) -> int:
    with sqlite3.connect(cache / "vectors.sqlite") as database:
        return database.execute("SELECT count(*) FROM vectors").fetchone()[0]


def test_each_text_is_embedded_once_and_vectors_come_in_order() -> None:
    encoder = Lengths()
    assert encode_cached(encoder, ["a", "bcd", "a"], "one").tolist() == [[1, 1], [3, 1], [1, 1]]
    assert encode_cached(encoder, ["bcd", "ef"], "one").tolist() == [[3, 1], [2, 1]]
    assert encoder.embedded == ["a", "bcd", "ef"]


def test_no_texts_give_no_rows() -> None:
    assert encode_cached(Lengths(), [], "one").shape == (0, 2)


def test_what_a_changed_folder_no_longer_holds_is_dropped_unless_another_uses_it(cache: Path) -> None:
    encoder = Lengths()
    encode_cached(encoder, ["a", "bb", "ccc"], "one")
    encode_cached(encoder, ["bb"], "two")
    encode_cached(encoder, ["ccc", "dddd"], "one")  # "a" has gone, "bb" belongs to the other too
    assert count(cache) == 3
    encode_cached(encoder, ["bb", "a"], "three")
    assert encoder.embedded == ["a", "bb", "ccc", "dddd", "a"]


def test_models_and_formats_do_not_share_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, other = Lengths(), Lengths()
    other.model = SimpleNamespace(dtype="bfloat16")
    encode_cached(encoder, ["a"], "one")
    encode_cached(other, ["a"], "one")
    monkeypatch.setattr(vector_cache, "model_identity", lambda name: [name, "another revision"])
    encode_cached(encoder, ["a"], "one")
    assert (encoder.embedded, other.embedded) == (["a", "a"], ["a"])


def test_an_interruption_loses_at_most_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "BATCH", 2)
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    with pytest.raises(KeyboardInterrupt):
        encode_cached(Lengths(dies_after=4), texts, "one")
    again = Lengths()
    assert encode_cached(again, texts, "one")[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert again.embedded == ["eeeee"]


def test_more_texts_than_one_statement_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"text {i}" for i in range(1201)]
    encoder = Lengths()
    first = encode_cached(encoder, texts, "one")
    assert (encode_cached(encoder, texts[::-1], "one") == first[::-1]).all()
    assert len(encoder.embedded) == 1201


@pytest.mark.parametrize("damage", [b"no database", b""])
def test_a_file_that_is_no_database_costs_time_and_no_answer(damage: bytes, cache: Path) -> None:
    (cache / "vectors.sqlite").mkdir() if not damage else (cache / "vectors.sqlite").write_bytes(damage * 99)
    with pytest.warns(UserWarning, match=r"vectors\.sqlite: .* All texts are embedded again; delete the file"):
        assert encode_cached(Lengths(), ["a", "bb"], "one").tolist() == [[1, 1], [2, 1]]
