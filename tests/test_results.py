"""The registry, the results files and the README's tables."""

import json
from pathlib import Path

import pytest
import yaml

from rag_lab import results
from rag_lab.metrics import Interval
from rag_lab.reproduce import readme, run

ENTRIES = yaml.safe_load(results.REGISTRY.read_text(encoding="utf-8"))
RESULTS = sorted(results.RESULTS.glob("*.json"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_registry_entries_say_where_they_come_from(entry: dict) -> None:
    paper = results.published(entry["id"])
    assert paper.read in ("primary", "transcript", "secondary")
    assert paper.claim
    assert paper.values
    assert paper.source["title"]
    assert paper.source["url"].startswith("https://") or paper.read == "secondary"


def test_registry_ids_are_unique() -> None:
    ids = [entry["id"] for entry in ENTRIES]
    assert len(ids) == len(set(ids))


def test_unknown_id_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match="late_berlin"):
        results.published("nothing")


@pytest.mark.parametrize("path", [p for p in RESULTS if p.stem != "notebook_seconds"], ids=lambda p: p.stem)
def test_recorded_results_have_provenance_and_sound_intervals(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["id"] == path.stem
    assert {"model", "data", "command", "date", "seconds", "versions"} <= result["provenance"].keys()
    assert result["rows"]
    for row in result["rows"]:
        if "low" in row:
            assert row["low"] <= row["value"] <= row["high"]
            assert row["n"] > 0


def test_write_and_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    row = {"name": "רשומה"} | results.interval_fields(Interval(0.5, 0.25, 0.75, 40))
    results.write_result("one", [row], model="m", data="d", sha256="s", command="c", seconds=1.23)
    loaded = results.load_result("one")
    assert loaded["rows"] == [{"name": "רשומה", "value": 0.5, "low": 0.25, "high": 0.75, "n": 40}]
    assert loaded["provenance"]["seconds"] == 1.2
    assert results.show_interval(loaded["rows"][0], 2) == "0.50 [0.25, 0.75]"
    with pytest.raises(FileNotFoundError, match="one"):
        results.load_result("two")


def test_replace_between() -> None:
    assert results.replace_between("a <!-- x -->old<!-- /x --> b", "x", "new") == "a <!-- x -->\nnew\n<!-- /x --> b"
    with pytest.raises(ValueError, match="<!-- y -->"):
        results.replace_between("a", "y", "new")


def test_readme_is_current() -> None:
    """A README whose tables differ from the results was edited by hand: run make readme."""
    text = results.README.read_text(encoding="utf-8")
    assert results.notebooks_table() in text
    assert readme.results_tables() in text
    assert run.table() in text
    assert readme.plan_table() in readme.GUIDE.read_text(encoding="utf-8")
