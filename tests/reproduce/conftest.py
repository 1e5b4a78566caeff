"""Results and cache in a folder of the test's own, no hub, and tiny random models in the hub's layout."""

from pathlib import Path

import huggingface_hub
import pytest

from rag_lab import results
from tests.support.messages_server import running_server as running_server  # a fixture
from tests.support.tiny_classifier import save_classifier
from tests.support.tiny_encoders import save_model


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "none"))


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    save_model(folder, "wordpiece")
    return str(folder)


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_classifier(tmp_path_factory.mktemp("classifier"), labels=1))
