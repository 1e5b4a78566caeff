"""The same sweep in one process, in two, on Dask with a worker killed, and itself killed twenty times: equal."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rag_lab.sweeps.run import run_sweep
from tests.support import sweep_folder

# Four indexes, so four units of work, and dense search, whose rounding threads and batches could change.
SWEEP = sweep_folder.SWEEP.replace("[bm25]", "[dense]").replace(
    "[by_sentences, by_paragraphs]", "[by_paragraphs, raw]\n  chunking.chunk_size: [60, 90]"
)


@pytest.fixture
def undisturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[dict[str, Any]]]:
    """The sweep's file, and its rows in one process; the cache folder is empty again."""
    path = sweep_folder.write(tmp_path, SWEEP)
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache of one process"))
    rows = run_sweep(path, results=tmp_path / "one.jsonl")
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    return path, rows


def test_two_processes_and_dask_with_a_worker_killed_give_the_same(
    undisturbed: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    path, rows = undisturbed
    one = (tmp_path / "one.jsonl").read_bytes()
    # "spawn" is how Windows and macOS start processes, and Dask's workers here.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        assert run_sweep(path, executor, tmp_path / "two.jsonl") == rows
    assert (tmp_path / "two.jsonl").read_bytes() == one

    os.environ["RAG_LAB_CACHE"] = str(tmp_path / "cache of dask")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        killed: list[int] = []

        def kill() -> None:
            pids = client.run(os.getpid)
            while not (busy := [worker for worker, tasks in client.processing().items() if tasks]):
                time.sleep(0.01)
            killed.append(pids[busy[0]])
            os.kill(killed[0], signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = run_sweep(path, client.get_executor(), tmp_path / "dask.jsonl")
        killer.join()
        assert killed[0] not in client.run(os.getpid).values()
    assert found == rows  # nothing lost, and nothing twice
    assert (tmp_path / "dask.jsonl").read_bytes() == one


# A process that has the model loaded, and forks others that run the sweep, each killed after another delay.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from rag_lab.sweeps import index
from rag_lab.sweeps.run import run_sweep

path, results, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
index.load_encoder("minilm")
delays = random.Random(0)

def start():
    pid = os.fork()
    if not pid:
        run_sweep(path, results=results)
        os._exit(0)
    return pid

def rows():
    return results.read_bytes().count(b"\\n") if results.exists() else 0

def clear():
    for file in [*Path(os.environ["RAG_LAB_CACHE"]).rglob("*.*"), results]:
        if file.is_file():
            file.unlink()

started = time.perf_counter()
assert os.waitstatus_to_exitcode(os.waitpid(start(), 0)[1]) == 0
seconds = time.perf_counter() - started
undisturbed = results.read_bytes()
clear()
left = []
for number in range(times):  # every other one is killed as soon as it has written a row
    before, deadline = rows(), time.perf_counter() + (2.0 if number % 2 else delays.random() * 0.5) * seconds
    pid = start()
    while time.perf_counter() < deadline and (number % 2 == 0 or rows() == before):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    left.append(rows())
    if results.exists() and results.read_bytes() == undisturbed:
        clear()
assert os.waitstatus_to_exitcode(os.waitpid(start(), 0)[1]) == 0
print(undisturbed.count(b"\\n"), results.read_bytes() == undisturbed, *left)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_twenty_times_it_ends_as_if_it_had_not_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    path = sweep_folder.write(tmp_path, SWEEP)
    command = [sys.executable, "-c", KILLER, str(path), str(tmp_path / "killed.jsonl"), "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows, equal, *left = done.stdout.split()
    assert equal == "True"
    assert rows == "12"
    assert len(left) == 20
    assert any(0 < int(count) < 12 for count in left)  # some were killed half way
