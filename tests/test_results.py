"""The registry, the results files and the README's tables."""

import json
from pathlib import Path

import pytest

from rag_lab import results
from rag_lab.metrics import Interval
from rag_lab.reproduce import readme, run
from rag_lab.results import Comparison, exactly, rounding, verdict

RESULTS = sorted(results.RESULTS.glob("*.json"))


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


@pytest.mark.parametrize(
    ("paper", "measured", "is_gain", "because", "expected"),
    [
        (0.645, Interval(0.66, 0.60, 0.70, 300), False, "", "reproduced"),
        (0.645, Interval(0.70, 0.66, 0.75, 300), False, "", "not reproduced"),
        (35, exactly(35.09), False, "", "reproduced"),  # within rounding: 34.5 to 35.5
        (35, exactly(35.6), False, "", "not reproduced"),
        (1.9, Interval(4.0, 2.5, 5.0, 300), True, "", "same direction"),
        (1.9, Interval(-4.0, -5.0, -2.5, 300), True, "", "not reproduced"),
        (-1.9, Interval(-4.0, -5.0, -2.5, 300), True, "", "same direction"),
        (1.9, Interval(4.0, 2.5, 5.0, 300), True, "another model", "same direction; another model"),
        (1.9, Interval(0.4, -0.5, 5.0, 300), True, "another model", "not comparable: another model"),
        (0.645, Interval(0.66, 0.60, 0.70, 300), False, "another model", "not comparable: another model"),
        (None, exactly(1.0), False, "", ""),
    ],
)
def test_verdict(paper: float | None, measured: Interval, is_gain: bool, because: str, expected: str) -> None:
    assert verdict(Comparison("x", paper, measured, is_gain), because) == expected


@pytest.mark.parametrize(
    ("number", "half"), [(64.2, 0.05), (20.0, 0.05), (35, 0.5), (0.645082, 0.0000005), (0.10, 0.05)]
)
def test_rounding_is_half_the_last_place(number: float, half: float) -> None:
    assert rounding(number) == pytest.approx(half, abs=1e-8)


def test_replace_between() -> None:
    assert readme.replace_between("a <!-- x -->old<!-- /x --> b", "x", "new") == "a <!-- x -->\nnew\n<!-- /x --> b"
    with pytest.raises(ValueError, match="<!-- y -->"):
        readme.replace_between("a", "y", "new")


def test_readmes_are_current() -> None:
    """A table that differs from the results was edited by hand: run make readme."""
    assert readme.notebooks_table() in readme.README.read_text(encoding="utf-8")
    assert readme.plan_table() in readme.GUIDE.read_text(encoding="utf-8")
    text = readme.RESULTS_README.read_text(encoding="utf-8")
    assert run.table() in text
    assert readme.results_tables() in text
