"""Vectors of texts, kept by content: a text that was embedded once, by the same model, is never embedded again."""

import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from rag_lab import settings
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.models.hub import model_identity
from rag_lab.storage import content_key

BATCH = 128  # texts that are embedded, then written to disk: an interrupted run loses at most these
SILENT_SECONDS = 2.0  # before a progress bar is shown
WAIT_SECONDS = 60.0  # for another process that writes
PARAMETERS = 500  # of one SQL statement; SQLite allows 999

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS uses (collection TEXT, key TEXT, PRIMARY KEY (collection, key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS uses_by_key ON uses (key);
"""


def encode_cached(encoder: Encoder, texts: Sequence[str], collection: str) -> Vectors:
    """``encoder.encode(texts)``, (n, d) float32; each distinct text is embedded once per model and number format.

    ``collection`` names what the texts belong to, for example a folder's path. A vector is dropped when its
    collection no longer uses it and no other does. The vectors lie in ``vectors.sqlite`` in the cache folder.
    If that file is damaged or cannot be written, a warning says so and all texts are embedded.
    """
    path = settings.cache_folder() / "vectors.sqlite"
    try:
        return _encode_cached(path, encoder, texts, collection)
    except sqlite3.Error as error:
        warnings.warn(
            f"{path}: {error}. All texts are embedded again; delete the file if it is damaged.", stacklevel=2
        )
        return encoder.encode(texts)


def _encode_cached(path: Path, encoder: Encoder, texts: Sequence[str], collection: str) -> Vectors:
    model = content_key(model_identity(encoder.files.name), str(encoder.model.dtype))
    keys = [content_key(model, text) for text in texts]
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as database:
        database.executescript(_TABLES)
        found = dict(_kept(database, list(dict.fromkeys(keys))))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        for part, vectors in _encoded(encoder, missing):
            with database:
                rows = [(key, vector.tobytes()) for key, vector in zip(part, vectors, strict=True)]
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            found |= zip(part, vectors, strict=True)
        _drop_unused(database, collection, keys)
    return np.array([found[key] for key in keys], np.float32).reshape(len(keys), encoder.dimension)


def _kept(database: sqlite3.Connection, keys: Sequence[str]) -> Iterator[tuple[str, Vectors]]:
    for start in range(0, len(keys), PARAMETERS):
        part = keys[start : start + PARAMETERS]
        marks = ", ".join("?" * len(part))
        for key, blob in database.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part):
            yield key, np.frombuffer(blob, np.float32)


def _encoded(encoder: Encoder, texts: dict[str, str]) -> Iterator[tuple[list[str], Vectors]]:
    """Keys and their vectors, a batch at a time."""
    from tqdm.auto import tqdm

    keys = list(texts)
    with tqdm(total=len(keys), unit=" passages", delay=SILENT_SECONDS, leave=False) as progress:
        for start in range(0, len(keys), BATCH):
            part = keys[start : start + BATCH]
            yield part, encoder.encode([texts[key] for key in part])
            progress.update(len(part))


def _drop_unused(database: sqlite3.Connection, collection: str, keys: Sequence[str]) -> None:
    """Note what the collection uses now, and drop what nobody uses."""
    with database:
        before = {key for (key,) in database.execute("SELECT key FROM uses WHERE collection = ?", (collection,))}
        gone, new = before - set(keys), set(keys) - before
        database.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?)", [(collection, key) for key in new])
        database.executemany("DELETE FROM uses WHERE collection = ? AND key = ?", [(collection, key) for key in gone])
        database.executemany(
            "DELETE FROM vectors WHERE key = ? AND key NOT IN (SELECT key FROM uses WHERE key = ?)",
            [(key, key) for key in gone],
        )
