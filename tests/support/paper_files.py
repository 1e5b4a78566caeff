"""Files in the layout of Lost in the Middle's repository, with one record each."""

import gzip
import json
from pathlib import Path
from typing import Any


def write_pairs(folder: Path, pairs: int, written: int | None = None) -> Path:
    """A key-value file of ``pairs`` pairs that holds ``written`` of them, or all."""
    record = {"ordered_kv_records": [[f"k{i}", f"v{i}"] for i in range(written or pairs)], "key": "k3", "value": "v3"}
    return _write(folder, f"kv_retrieval_data/kv-retrieval-{pairs}_keys.jsonl.gz", record)


def write_paper_file(folder: Path, gold: tuple[int, ...] = (0,)) -> Path:
    """Ten documents, of which those at ``gold`` are marked as gold."""
    passages = [{"title": f"T{i}", "text": f"text {i}", "isgold": i in gold} for i in range(10)]
    record = {"question": "who", "answers": ["text 0"], "ctxs": passages}
    return _write(folder, "10_total_documents/nq-open-10_total_documents_gold_at_0.jsonl.gz", record)


def _write(folder: Path, name: str, record: dict[str, Any]) -> Path:
    path = folder / "lost-in-the-middle" / name
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return path
