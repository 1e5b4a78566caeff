"""What a sweep keeps on disk, under hashes of content: of data, of models, and of the code that made it."""

import ast
import functools
import hashlib
import json
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab import models, settings
from rag_lab.encoder import Vectors
from rag_lab.store import Store

PACKAGE = Path(__file__).resolve().parent
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "rank-bm25", "regex")
# Data files that shape answers and their scores.
TABLES = ("injection_detector.yaml", "look_alikes.yaml", "openers.yaml", "number_words.yaml")


def folder() -> Path:
    """``sweeps`` in the cache folder."""
    return settings.cache_folder() / "sweeps"


@functools.cache
def completions() -> Store:
    """The completions of local models, one record a prompt. Only the main process writes them."""
    return Store(folder() / "completions.jsonl")


@functools.cache
def code(module: str) -> str:
    """SHA-256 over a module of this package, all of the package that it imports, and what both are built on.

    Built on: the versions of the libraries that compute, and the tables in ``data``.
    """
    total = hashlib.sha256()
    for name in sorted(_needs(module)):
        total.update((PACKAGE / f"{name}.py").read_bytes())
    for table in TABLES:
        total.update((settings.DATA / table).read_bytes())
    total.update(" ".join(version(library) for library in LIBRARIES).encode())
    return total.hexdigest()


def _needs(module: str) -> set[str]:
    found, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in found or not (PACKAGE / f"{name}.py").is_file():
            continue
        found.add(name)
        for node in ast.walk(ast.parse((PACKAGE / f"{name}.py").read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module == "rag_lab":
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rag_lab."):
                waiting.append((node.module or "").split(".")[1])
    return found


@functools.cache
def model_identity(name: str) -> list[Any]:
    """What tells a model from another of the same name: its files' names and sizes (a folder's with their times), or
    its revision at the hub; and the number format and device that it is computed with here."""
    files = models.resolve(name)
    here = [name, models.device(), models.best_dtype(models.device())]
    if files.source == "hub":
        from transformers import AutoConfig

        return [*here, files.path_or_id, AutoConfig.from_pretrained(files.path_or_id)._commit_hash]
    found = sorted(path for path in Path(files.path_or_id).iterdir() if path.is_file())
    times = files.source == "path"  # what pip installs is made anew on every machine
    return [*here, [[path.name, path.stat().st_size, path.stat().st_mtime_ns if times else 0] for path in found]]


def kept_vectors(key: str, make: Callable[[], Vectors]) -> Vectors:
    """The array of that key, made where it is not there yet, by one process."""

    def write(path: Path, vectors: Vectors) -> None:
        with open(path, "wb") as file:
            np.save(file, vectors)

    return _kept(folder() / "vectors" / f"{key}.npy", make, lambda path: np.load(path, allow_pickle=False), write)


def kept_json(kind: str, key: str, make: Callable[[], Any]) -> Any:
    """The JSON value of that key, made where it is not there yet, by one process."""
    return _kept(
        folder() / kind / f"{key}.json",
        make,
        lambda path: json.loads(path.read_text(encoding="utf-8")),
        lambda path, value: path.write_text(json.dumps(value), encoding="utf-8"),
    )


def _kept(path: Path, make: Callable[[], Any], read: Callable[[Path], Any], write: Callable[[Path, Any], Any]) -> Any:
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # let go by the system where a process is killed
        if not path.exists():
            part = path.with_suffix(".part")
            write(part, make())
            os.replace(part, path)
        return read(path)
