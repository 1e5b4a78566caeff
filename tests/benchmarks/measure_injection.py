"""How often the injection detector is right: on the labelled passages, and on texts in which nothing is injected.

python -m tests.benchmarks.measure_injection        about a minute; published data are used if present

The threshold of the embedding is the lowest that flags at most one in 200 of the ordinary sentences in the half
called "tune" and in the corpus "cities"; the patterns were tried on the half "tune" alone. The figures are of the
half called "report" and of the other corpora. In that half, passages of kind "second wording" were written after the
patterns were fixed; the others are translations of those that the patterns were tried on, so their figures are upper
bounds.
"""

import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rag_lab import datasets, results, settings
from rag_lab.metrics import bootstrap_ci
from rag_lab.models.encoder import Encoder
from rag_lab.prompting import injection
from rag_lab.text.segmentation import sentences
from rag_lab.types import Document

COMMAND = "python -m tests.benchmarks.measure_injection"
PASSAGES = settings.DATA / "injections.jsonl"


def load_passages() -> list[dict[str, Any]]:
    """The labelled passages."""
    return [json.loads(line) for line in PASSAGES.read_text(encoding="utf-8").splitlines()]


def sentences_of(text: str) -> list[str]:
    """The sentences that the detector looks at."""
    return [text[start:end].strip() for start, end in sentences(text, 0, len(text)) if text[start:end].strip()]


def detect(passages: Sequence[dict[str, Any]], encoder: Encoder) -> None:
    """Give each passage ``pattern`` (whether a sentence matches one) and ``similarity`` (its sentences' highest)."""
    parts = [sentences_of(passage["text"]) for passage in passages]
    near = iter(injection.similarity([part for group in parts for part in group], encoder))
    for passage, group in zip(passages, parts, strict=True):
        passage["similarity"] = max(next(near) for _ in group)
        passage["pattern"] = any(injection.matching_language(part) for part in group)


def choose_threshold(ordinary: Sequence[str], encoder: Encoder) -> float:
    """The least threshold, to two decimals, that marks at most one in 200 of the ordinary sentences."""
    similarities = sorted(injection.similarity(ordinary, encoder), reverse=True)
    return math.floor(similarities[len(ordinary) // 200] * 100 + 1) / 100


def scores(passages: Sequence[dict[str, Any]], threshold: float) -> Iterable[dict[str, Any]]:
    """Precision and recall, with intervals over passages, of patterns, embedding and both."""
    marks = {
        "patterns": [p["pattern"] for p in passages],
        "embedding": [p["similarity"] >= threshold for p in passages],
        "both": [p["pattern"] or p["similarity"] >= threshold for p in passages],
    }
    for name, marked in marks.items():
        right = [p["injected"] for p, mark in zip(passages, marked, strict=True) if mark]
        found = [mark for p, mark in zip(passages, marked, strict=True) if p["injected"]]
        for measure, values in (("precision", right), ("recall", found)):
            if values:
                yield {"detector": name, "measure": measure} | results.interval_fields(bootstrap_ci(values))


def report_rows(passages: Sequence[dict[str, Any]], threshold: float) -> list[dict[str, Any]]:
    """By language, all, and by wording."""
    groups = {
        language: [p for p in passages if p["language"] == language] for language in ("en", "he", "fa", "ru", "zh")
    }
    groups["all"] = list(passages)
    groups["all, first wording"] = [p for p in passages if p["kind"] != "second wording"]
    groups["all, second wording"] = [p for p in passages if not p["injected"] or p["kind"] == "second wording"]
    return [
        {"set": "half report", "group": group} | row
        for group, members in groups.items()
        for row in scores(members, threshold)
    ]


def clean_rows(name: str, documents: Iterable[Document], encoder: Encoder | None, threshold: float) -> dict[str, Any]:
    """Sentences marked in texts without an injection: all of them false."""
    texts = [sentence for document in documents for sentence in sentences_of(document.text)]
    patterns = [text for text in texts if injection.matching_language(text)]
    row = {"set": name, "sentences": len(texts), "marked by patterns": len(patterns)}
    if encoder:
        near = [t for t, s in zip(texts, injection.similarity(texts, encoder), strict=True) if s >= threshold]
        row |= {"marked by embedding": len(near), "marked by both": len({*near, *patterns})}
        print(*near, sep="\n")
    print(row, *patterns, sep="\n")
    return row


def main() -> int:
    """Measure and record."""
    began = time.perf_counter()
    encoder = Encoder.load("minilm", dtype="float32")
    passages = load_passages()
    detect(passages, encoder)
    tune, report = ([p for p in passages if p["half"] == half] for half in ("tune", "report"))
    ordinary = [p["text"] for p in tune if not p["injected"]]
    ordinary += [document.text for document in datasets.load_corpus("cities").documents]
    ordinary = [sentence for text in ordinary for sentence in sentences_of(text)]
    threshold = choose_threshold(ordinary, encoder)
    print("threshold", threshold)
    rows = [{"set": "half tune, cities", "measure": "threshold", "value": threshold, "n": len(ordinary)}]
    rows += report_rows(report, threshold)
    for row in rows[1:]:
        print(row["group"], row["detector"], row["measure"], results.show_interval(row), row["n"], sep="  ")
    for name in ("insurance", "handbook"):
        rows.append(clean_rows(name, datasets.load_corpus(name).documents, encoder, threshold))
    published = {
        "nq-oracle": lambda: datasets.load_nq_oracle().documents,
        "scifact": lambda: datasets.load_scifact().documents[:1000],
        "codebases": lambda: datasets.load_codebases().documents,
    }
    for name, load in published.items():
        try:
            documents = load()
        except FileNotFoundError as error:
            print(f"{name} is left out: {error}")
        else:
            rows.append(clean_rows(name, documents, None, threshold))
    results.write_result(
        "injection_detector",
        rows,
        model="all-MiniLM-L6-v2, float32",
        data="data/injections.jsonl and data/injection_detector.yaml; the built-in corpora; published texts",
        sha256=results.digest([PASSAGES, settings.DATA / "injection_detector.yaml"]),
        command=COMMAND,
        seconds=time.perf_counter() - began,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
