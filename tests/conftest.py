"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest

from rag_lab import results  # before any test imports torch: this sets GOMP_SPINCOUNT

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# One thread per test process: two processes on two cores, and kernels that they start, would wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test may reach a hub or use a key that is set. This runs before any test file is imported: the hub's client reads
# it once.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", RAG_LAB_MODE="offline")
os.environ.pop("ANTHROPIC_API_KEY", None)


@pytest.fixture
def published_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of published data sets; the test is skipped if there is none."""
    folder = Path(os.environ.get("RAG_LAB_DATA", SHARED_DATA))
    if not folder.is_dir():
        pytest.skip("published data not found: set RAG_LAB_DATA to their folder")
    monkeypatch.setenv("RAG_LAB_DATA", str(folder))
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Notebooks run first, the longest before all others: a process that begins with it last keeps all waiting."""
    seconds = results.measured_seconds()

    def order(item: pytest.Item) -> float:
        runs = item.name.startswith(("test_a_notebook_runs", "test_its_solutions_run"))
        return -seconds.get(item.name.partition("[")[2].rstrip("]"), 0.0) if runs else 0.0

    items.sort(key=order)
