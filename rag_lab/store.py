"""Results kept on disk as they arrive, so that a run killed at any moment pays only for what is missing."""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def content_key(*parts: Any) -> str:
    """SHA-256 (64 hex digits) of ``parts`` as canonical JSON: equal content, equal keys, in any dict order.

    Raises TypeError where a part is not JSON content (text, numbers, booleans, None, lists, dicts).
    """
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Store:
    """Records by key in a file of JSON lines, which is only ever appended to.

    Each ``put`` is one write, forced to disk before it returns. A line that a crash cut short stays where it
    is, is skipped on reading with a warning, and is never joined to the next. Of two records with one key the
    later counts. Threads may share a Store; processes may share the file, and see each other's records when
    they open it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, Any]] = {}
        unreadable = 0
        for line in self.path.read_bytes().split(b"\n") if self.path.exists() else ():
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                self._records[entry["key"]] = entry["record"]
            except (ValueError, KeyError, TypeError):  # cut short, or not written by a Store
                unreadable += 1
        if unreadable:
            warnings.warn(
                f"{self.path}: {unreadable} unreadable line(s) skipped (a write was cut short).", stacklevel=2
            )

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> dict[str, Any] | None:
        """The record stored under ``key``, or None."""
        return self._records.get(key)

    def put(self, key: str, record: dict[str, Any]) -> None:
        """Keep ``record`` (JSON content only) under ``key``; it is on disk when this returns."""
        self.put_many({key: record})

    def put_many(self, records: Mapping[str, dict[str, Any]]) -> None:
        """``put`` for each of ``records``, in one write."""
        # ASCII: no character can fail to be written
        lines = [json.dumps({"key": key, "record": record}) for key, record in records.items()]
        text = "".join(f"{line}\n" for line in lines)
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b", buffering=0) as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        text = "\n" + text
                data = text.encode("ascii")
                written = file.write(data)
                os.fsync(file.fileno())
            if written != len(data):
                raise OSError(f"{self.path}: {written} of {len(data)} bytes were written; is the disk full?")
            self._records |= {key: json.loads(line)["record"] for key, line in zip(records, lines, strict=True)}
