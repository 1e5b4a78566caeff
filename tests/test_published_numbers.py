"""The shape of data/published/numbers.yaml: whoever reads an entry can plot it without looking at it first."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from rag_lab import results

TEXT = results.REGISTRY.read_text(encoding="utf-8")
ENTRIES = yaml.safe_load(TEXT)
REQUIRED = {f.name for f in dataclasses.fields(results.Published)} - {"note"}
URL = re.compile(r"https://[a-z0-9.-]+\.[a-z]+/\S+")


def leaves(values: Any) -> Iterator[Any]:
    """Every value that is not a mapping or a list, at any depth."""
    if isinstance(values, dict | list):
        for inner in values.values() if isinstance(values, dict) else values:
            yield from leaves(inner)
    else:
        yield values


def disguised(value: Any) -> bool:
    """A number written as text, such as "~1.5%", "+24" or "about 20"."""
    return isinstance(value, str) and bool(re.fullmatch(r"(about|nearly|around|[~<>≈+-])*\s*[\d.,]+\s*%?", value))


def test_ids_are_unique() -> None:
    repeated = [id_ for id_, count in Counter(entry["id"] for entry in ENTRIES).items() if count > 1]
    assert not repeated


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_entry_has_the_schema(entry: dict[str, Any]) -> None:
    assert entry.keys() >= REQUIRED
    assert entry.keys() <= REQUIRED | {"note"}
    assert re.fullmatch(r"[a-z0-9_]+", entry["id"])
    for name in ("claim", "model", "data", "metric", "read"):
        assert isinstance(entry[name], str)
    assert entry["claim"]
    assert entry["metric"]
    assert isinstance(entry["n"], int)
    assert entry["n"] >= 0
    assert entry["read"] in ("primary", "transcript", "secondary")
    assert entry["source"].keys() == {"title", "url", "table"}
    assert entry["source"]["title"]
    assert URL.fullmatch(entry["source"]["url"]) or (entry["source"]["url"] == "" and entry["read"] == "secondary")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_numbers_are_numbers(entry: dict[str, Any]) -> None:
    found = list(leaves(entry["values"]))
    assert found
    assert all(isinstance(value, int | float | str) for value in found)
    assert not [value for value in found if disguised(value)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_lists_are_as_long_as_their_columns(entry: dict[str, Any]) -> None:
    values = entry["values"]
    for heading in values.keys() & {"positions", "columns"}:
        odd = [key for key, v in values.items() if isinstance(v, list) and len(v) != len(values[heading])]
        assert odd in ([], ["ROUGE-L of answers, in that order"])  # that one has a value a row, not a column


@pytest.mark.parametrize("id_", ["litm_10docs", "litm_20docs", "litm_20docs_repo", "litm_30docs", "litm_kv_repo"])
def test_position_curves_are_one_list_a_model(id_: str) -> None:
    paper = results.published(id_)
    positions = paper.values["positions"]
    assert positions == sorted(set(positions))
    top = 1.0 if "0 to 1" in paper.metric else 100.0
    for model, curve in paper.values.items():
        if model != "positions":
            assert len(curve) == len(positions)
            assert all(0 <= value <= top for value in curve)


def test_entries_that_overlap_agree() -> None:
    """Some figures stand both in a short entry and in the full table that it comes from."""
    short, table = (results.published(i).values for i in ("late_scifact_fixed256", "late_beir_v2small_fixed256"))
    assert table["SciFact"][1:] == [short["naive"], short["late"], short["unchunked"]]
    anserini = results.published("bm25_anserini").values["SciFact, flat"]
    assert anserini[:2] == list(results.published("anserini_bm25_scifact").values.values())
    assert results.published("minilm_third_party").values["SciFact"] == pytest.approx(
        results.published("minilm_scifact").values["nDCG@10"]
    )
    merola, full = (results.published(i).values for i in ("merola_nfcorpus", "merola_early_vs_late_nfcorpus"))
    for model, pair in merola.items():
        assert full[f"{model}, early, fixed"][:2] == pair["naive"]
        assert full[f"{model}, late, fixed"][:2] == pair["late"]
    for gains, (naive, late) in (
        (results.published("late_table2_averages").values[cut], (row["naive"], row["late"]))
        for cut, row in results.published("late_averages").values.items()
    ):
        assert gains["points"] == pytest.approx(late - naive, abs=0.11)  # the paper rounds each figure on its own


def test_crag_rows_add_up() -> None:
    """Right, wrong and missing fill 100%, and right minus wrong is the truthfulness (each rounded to 0.1)."""
    for name, row in results.published("crag_scoring").values.items():
        if isinstance(row, list) and name != "columns":
            right, wrong, missing, truthfulness = row
            assert right + wrong + missing == pytest.approx(100, abs=0.2)
            assert right - wrong == pytest.approx(truthfulness, abs=0.11)
