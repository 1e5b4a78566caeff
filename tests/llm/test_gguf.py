import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_lab.llm import gguf as gguf_module
from rag_lab.llm.gguf import dequantised

STAND_IN = """
import sys, time
from pathlib import Path
from rag_lab.llm import gguf

def convert(gguf, folder):  # STAND-IN for the conversion: slow, and noted
    folder.mkdir()
    (folder / "model.safetensors").write_text("half", encoding="utf-8")
    with open(sys.argv[2], "a") as log:
        log.write("converted\\n")
    time.sleep(float(sys.argv[3]))
    (folder / "model.safetensors").write_text("half and the rest", encoding="utf-8")

gguf._convert = convert
print(gguf.dequantised(Path(sys.argv[1])))
"""


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "some.Q4_1.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """STAND-IN for the conversion, which writes two small files; the list of what it was called with."""
    called: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        called.append(gguf)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights of " + gguf.read_bytes())
        (folder / "config.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(gguf_module, "_convert", convert)
    return called


def test_a_file_is_converted_once(gguf: Path, conversions: list[Path]) -> None:
    folder = dequantised(gguf)
    assert dequantised(gguf) == folder
    assert len(conversions) == 1
    assert (folder / "model.safetensors").read_bytes() == b"weights of GGUF"
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def test_another_file_of_the_same_name_has_a_folder_of_its_own(gguf: Path, conversions: list[Path]) -> None:
    first = dequantised(gguf)
    gguf.write_bytes(b"GGUF, version 2")
    second = dequantised(gguf)
    assert first != second
    assert (second / "model.safetensors").read_bytes() == b"weights of GGUF, version 2"


def test_a_conversion_that_fails_leaves_nothing(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_text("half", encoding="utf-8")
        raise OSError("No space left on device")

    monkeypatch.setattr(gguf_module, "_convert", convert)
    with pytest.raises(OSError, match="No space"):
        dequantised(gguf)
    assert not [path for path in (gguf.parent / "cache" / "gguf").iterdir() if path.is_dir()]


def _start(gguf: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STAND_IN, str(gguf), str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_that_come_at_once_convert_once(gguf: Path, tmp_path: Path) -> None:
    processes = [_start(gguf, tmp_path / "log", 0.5) for _ in range(2)]
    folders = {process.communicate(timeout=300)[0].strip() for process in processes}
    assert len(folders) == 1
    assert (tmp_path / "log").read_text(encoding="utf-8") == "converted\n"
    assert (Path(folders.pop()) / "model.safetensors").read_text(encoding="utf-8") == "half and the rest"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_conversion_is_done_again(gguf: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = _start(gguf, log, 600)
    while not log.exists():
        assert process.poll() is None, "the process ended before it converted anything"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = Path(_start(gguf, log, 0).communicate(timeout=300)[0].strip())
    assert (folder / "model.safetensors").read_text(encoding="utf-8") == "half and the rest"
    assert log.read_text(encoding="utf-8") == "converted\n" * 2
