"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest

import rag_lab  # noqa: F401  before any test imports torch, whose threads it bids sleep while they wait

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# No test may reach a hub or use a key that happens to be set. Before any import: the hub's client reads it once.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", RAG_LAB_MODE="offline")
os.environ.pop("ANTHROPIC_API_KEY", None)


@pytest.fixture
def published_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of published data sets; the test is skipped where there is none."""
    folder = Path(os.environ.get("RAG_LAB_DATA", SHARED_DATA))
    if not folder.is_dir():
        pytest.skip("published data not found: set RAG_LAB_DATA to their folder")
    monkeypatch.setenv("RAG_LAB_DATA", str(folder))
    return folder
