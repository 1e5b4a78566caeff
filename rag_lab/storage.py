"""Files that stay whole if the program is killed: atomic writes, append-only JSON Lines, cached values."""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab import settings


def content_key(*parts: Any) -> str:
    """SHA-256 (64 hex digits) of ``parts`` as canonical JSON; the order of dict keys does not matter.

    Raises TypeError if a part is not JSON content (text, numbers, booleans, None, lists, dicts).
    """
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Replace the file at ``path`` with ``data`` (text as UTF-8), entirely or not at all. Creates missing folders."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # another process may write the same file
    part.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    try:
        os.replace(part, path)
    except OSError:
        part.unlink()
        raise


def jsonl_bytes(
    records: Iterable[Any], default: Callable[[Any], Any] | None = None, ensure_ascii: bool = True
) -> bytes:
    """One line of JSON per record. ``default`` and ``ensure_ascii`` (False: UTF-8) are as in ``json.dumps``."""
    lines = (json.dumps(record, default=default, ensure_ascii=ensure_ascii) + "\n" for record in records)
    return "".join(lines).encode("utf-8")


def append_jsonl(
    path: str | Path, records: Iterable[Any], default: Callable[[Any], Any] | None = None, ensure_ascii: bool = True
) -> None:
    """Append ``records`` to a JSON Lines file in one write. They are on disk when this returns.

    If an earlier write was cut short, the records start on a new line. Raises TypeError, before anything is written,
    if a record is not JSON content. Raises OSError if not all bytes could be written.
    """
    data = jsonl_bytes(records, default, ensure_ascii)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = b"\n" + data
        written = file.write(data)
        os.fsync(file.fileno())
    if written != len(data):
        raise OSError(f"{path}: {written} of {len(data)} bytes were written; is the disk full?")


def read_jsonl(path: str | Path, strict: bool = False) -> list[Any]:
    """The records of a JSON Lines file, in order.

    Unreadable lines are skipped with one warning. With ``strict`` they raise ValueError with file and line, except a
    last line without a line end: a crash cut it short, so it is dropped.
    """
    lines = Path(path).read_bytes().split(b"\n")
    records, unreadable = [], 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except ValueError as error:
            if strict and number < len(lines):
                raise ValueError(f"{path}, line {number} is not JSON: {error}.") from error
            unreadable += 1
    if unreadable and not strict:
        warnings.warn(f"{path}: {unreadable} unreadable line(s) skipped (a write was cut short).", stacklevel=2)
    return records


def cached_array(kind: str, key: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The array in ``KIND/KEY.npy`` of the cache folder. If it is missing, one process makes and keeps it."""
    path = settings.cache_folder() / kind / f"{key}.npy"
    with _lock(path):
        if not path.exists():
            part = path.with_suffix(".part.npy")
            np.save(part, make())
            os.replace(part, path)
        return np.load(path, allow_pickle=False)


def cached_json(kind: str, key: str, make: Callable[[], Any]) -> Any:
    """The JSON value in ``KIND/KEY.json`` of the cache folder. If it is missing, one process makes and keeps it."""
    path = settings.cache_folder() / kind / f"{key}.json"
    with _lock(path):
        if not path.exists():
            write_atomic(path, json.dumps(make()))
        return json.loads(path.read_text(encoding="utf-8"))


def _lock(path: Path) -> Any:
    """A lock between processes, which the system releases if its holder is killed."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_suffix(".lock"))


class Store:
    """Records by key in an append-only JSON Lines file; the last record of a key counts.

    Reading skips a line that a crash cut short, with a warning. Threads may share a Store. Processes may share the
    file; each sees the records that were there when it opened the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        entries = read_jsonl(self.path) if self.path.exists() else []
        kept = [e for e in entries if isinstance(e, dict) and "key" in e and "record" in e]
        if len(kept) < len(entries):
            warnings.warn(
                f"{self.path}: {len(entries) - len(kept)} line(s) skipped: they are not Store records.", stacklevel=2
            )
        self._records: dict[str, dict[str, Any]] = {entry["key"]: entry["record"] for entry in kept}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> dict[str, Any] | None:
        """The record stored under ``key``, or None."""
        return self._records.get(key)

    def put(self, key: str, record: dict[str, Any]) -> None:
        """Store ``record`` (JSON content) under ``key``; it is on disk when this returns."""
        with self._lock:
            append_jsonl(self.path, [{"key": key, "record": record}])
            self._records[key] = json.loads(json.dumps(record))  # as a later reader will see it
