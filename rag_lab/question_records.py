"""The file of generated questions: one record a line, kept ones and refused ones, and what became of them."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class QuestionReport:
    """What became of the questions of one kind. ``refused``: how many for which reason.

    ``answered_elsewhere``: negatives dropped because another document answers them, of ``searched`` that were looked
    for.
    """

    written: int
    kept: int
    refused: dict[str, int]
    searched: int = 0
    answered_elsewhere: int = 0


def report(records: Iterable[Record]) -> dict[str, QuestionReport]:
    """What became of the questions, by kind (``positive``, ``negative``)."""
    found = {}
    records = list(records)
    for kind in ("positive", "negative"):
        mine = [record for record in records if record.get("kind") == kind]
        kept = [record for record in mine if record.get("kept", True)]
        refused = Counter(record.get("why") or "by hand" for record in mine if not record.get("kept", True))
        searched = len(kept) + sum(count for why, count in refused.items() if why.startswith("answered"))
        found[kind] = QuestionReport(
            len(mine),
            len(kept),
            dict(refused.most_common()),
            searched if kind == "negative" else 0,
            refused["answered elsewhere"] if kind == "negative" else 0,
        )
    return found


def load_records(path: str | Path) -> list[Record]:
    """All records of a file, refused ones too, as ``report`` takes them.

    A last line that was cut short, and so has no line end, is left out. FileNotFoundError where there is no file;
    ValueError for another line that is no JSON object.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There are no questions at {path}.")
    lines = Path(path).read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number} is not JSON: {error}.") from error
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number} is {str(record)[:40]!r}; a record is a JSON object.")
        records.append(record)
    return records


def resume(path: Path) -> list[Record]:
    """The records to go on from; the file then ends after the last whole pair, as ``append`` needs it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file for the questions.")
    if not path.exists():
        return []
    records = load_records(path)
    if records and records[-1].get("kind") == "positive" and "key" in records[-1]:
        records.pop()  # its negative was not written
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(_lines(records))
    os.replace(part, path)
    return records


def append(path: Path, records: Sequence[Record]) -> None:
    """Write a pair; it is on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.write(_lines(records))
        file.flush()
        os.fsync(file.fileno())


def _lines(records: Iterable[Record]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf-8")
