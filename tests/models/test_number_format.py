"""rag_lab.models.number_format: the choice follows the timings; a file that cannot be trusted is measured again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_lab.models import number_format
from rag_lab.models.number_format import Model, NumberFormat, Timings, choose_format

# An Intel Xeon with AVX512-BF16 and no AMX, one thread (rows of 576 × 1536; encoding scaled from its seconds).
INTEL: Timings = {
    "encode": {"float32": 160, "float32 packed": 150, "bfloat16": 90, "bfloat16 packed": 95},
    "prefill": {"float32": 169, "float32 packed": 164, "bfloat16": 87, "bfloat16 packed": 89},
    "decode": {"float32": 15, "float32 packed": 12, "bfloat16": 14, "bfloat16 packed": 29},
}
# An AMD EPYC with AVX512-BF16, two threads.
AMD: Timings = {
    "encode": {"float32": 120, "float32 packed": 220, "bfloat16": 430, "bfloat16 packed": 440},
    "prefill": {"float32": 130, "float32 packed": 238, "bfloat16": 480, "bfloat16 packed": 489},
    "decode": {"float32": 6, "float32 packed": 6, "bfloat16": 8, "bfloat16 packed": 13},
}
NO_BFLOAT16: Timings = {job: {"float32": 100, "float32 packed": 110} for job in ("encode", "prefill", "decode")}
NOT_X86: Timings = {job: {"float32": 100, "bfloat16": 99} for job in ("encode", "prefill", "decode")}


@pytest.mark.parametrize(
    ("timings", "model", "dtype", "packed", "why"),
    [
        (INTEL, "encoder", "float32", False, "measured: bfloat16 takes 1.68 times as long here"),  # 160 / 95
        # float32 1500 / 169 + 40 / 15 = 11.54; bfloat16 packed 1500 / 89 + 40 / 29 = 18.23
        (INTEL, "language model", "float32", False, "measured: bfloat16 takes 1.58 times as long here"),
        (AMD, "encoder", "bfloat16", True, "measured: float32 takes 2.00 times as long here"),  # 440 / 220
        # bfloat16 packed 1500 / 489 + 40 / 13 = 6.14; float32 packed 1500 / 238 + 40 / 6 = 12.97
        (AMD, "language model", "bfloat16", True, "measured: float32 takes 2.11 times as long here"),
        (NO_BFLOAT16, "encoder", "float32", True, "the only format that this CPU computes"),
        (NOT_X86, "language model", "float32", False, "measured: bfloat16 takes 1.01 times as long here"),
    ],
)
def test_the_choice_follows_the_timings(timings: Timings, model: Model, dtype: str, packed: bool, why: str) -> None:
    assert choose_format(timings, model) == NumberFormat(dtype, packed, why)


def test_decode_decides_where_it_takes_longer_than_prefill() -> None:
    """1500 tokens read at 100 and 40 written at 1 or 2: 15 + 40 against 15.2 + 20."""
    timings = {"prefill": {"float32": 100, "bfloat16": 99}, "decode": {"float32": 1, "bfloat16": 2}}
    assert choose_format(timings, "language model").dtype == "bfloat16"


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Timings]]:
    """A cache folder of its own; measuring gives INTEL and is counted."""
    count: list[Timings] = []
    number_format.measured.cache_clear()
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    monkeypatch.delenv("RAG_LAB_DTYPE", raising=False)
    monkeypatch.setattr(number_format, "measure", lambda: count.append(INTEL) or INTEL)
    yield count
    number_format.measured.cache_clear()  # of other tests, this machine's own timings


def test_a_machine_is_measured_once(made_up: list[Timings], tmp_path: Path) -> None:
    for model in ("encoder", "language model", "encoder"):
        number_format.measured.cache_clear()
        assert number_format.number_format(model).dtype == "float32"
    assert len(made_up) == 1
    kept = json.loads((tmp_path / "number_format.json").read_text("utf-8"))
    assert kept == {number_format.machine(): INTEL}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "\ufeff null",
        json.dumps({"0: an old version": AMD}),
        json.dumps({"1: another processor": AMD}),
        "MACHINE without decode",
        "MACHINE without speeds",
        "MACHINE with a speed of 0",
    ],
)
def test_a_broken_old_or_foreign_file_is_measured_again(content: str, made_up: list[Timings], tmp_path: Path) -> None:
    rows = {
        "MACHINE without decode": {"encode": AMD["encode"], "prefill": AMD["prefill"]},
        "MACHINE without speeds": {job: {} for job in AMD},
        "MACHINE with a speed of 0": {job: {"float32": 0} for job in AMD},
    }
    if content in rows:
        content = json.dumps({number_format.machine(): rows[content]})
    path = tmp_path / "number_format.json"
    path.write_text(content, encoding="utf-8")
    assert number_format.number_format("encoder").dtype == "float32"
    assert len(made_up) == 1
    assert json.loads(path.read_text("utf-8"))[number_format.machine()] == INTEL
    number_format.measured.cache_clear()
    number_format.number_format("encoder")
    assert len(made_up) == 1


def test_timings_of_another_machine_in_the_same_folder_are_kept(made_up: list[Timings], tmp_path: Path) -> None:
    path = tmp_path / "number_format.json"
    path.write_text(json.dumps({"1: another processor": AMD}), encoding="utf-8")
    number_format.number_format("encoder")
    assert set(json.loads(path.read_text("utf-8"))) == {"1: another processor", number_format.machine()}


def test_the_environment_overrides_what_was_measured(made_up: list[Timings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_DTYPE", "bfloat16")
    assert number_format.number_format("encoder") == NumberFormat("bfloat16", True, "RAG_LAB_DTYPE")  # 95 over 90
    assert number_format.number_format("encoder", "mps") == NumberFormat("bfloat16", False, "RAG_LAB_DTYPE")
    monkeypatch.setenv("RAG_LAB_DTYPE", "float16")
    with pytest.raises(ValueError, match="RAG_LAB_DTYPE is 'float16'; set it to float32 or bfloat16"):
        number_format.number_format("encoder")


def test_a_folder_that_cannot_be_written_is_told(made_up: list[Timings], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(number_format, "write_atomic", full)
    with pytest.warns(UserWarning, match=r"No space left on device. This machine is measured again"):
        assert number_format.number_format("encoder").dtype == "float32"


def test_measuring_gives_a_speed_for_every_job_and_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        number_format, "SHAPES", {"encode": (64, 64, 64), "prefill": (32, 64, 64), "decode": (1, 64, 64)}
    )
    found = number_format.measure()
    assert set(found) == {"encode", "prefill", "decode"}
    ways = {number_format.format_name(*way) for way in number_format.FORMATS}
    assert all("float32" in row and set(row) <= ways and min(row.values()) > 0 for row in found.values())
