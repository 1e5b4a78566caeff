"""Precision and recall of the citation checks on the hand-written pairs of data/citation_pairs.jsonl.

python -m tests.benchmarks.measure_citation_checks        a few seconds; --show prints every disagreement
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from rag_lab import results, settings
from rag_lab.citations.quotes import check_quotes
from rag_lab.citations.validation import CitationReport, check_numbers, validate_citations
from rag_lab.metrics import bootstrap_ci
from rag_lab.prompting.templates import Source, assign_sources
from rag_lab.types import Chunk

PAIRS = settings.DATA / "citation_pairs.jsonl"
COMMAND = "python -m tests.benchmarks.measure_citation_checks"

# What each check says, item by item: (check, item, flagged, what the label says).
Finding = tuple[str, str, bool, bool]


def load_pairs() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def pair_sources(pair: dict[str, Any]) -> list[Source]:
    """S1, S2 … with the pair's texts; no title, so that nothing else can hold a number."""
    return assign_sources([Chunk(pair["id"], i, text, 0, len(text)) for i, text in enumerate(pair["sources"])])


def findings(pair: dict[str, Any]) -> Iterator[Finding]:
    """Every item that a check flags, or should, in one pair."""
    answer = pair["answer"]
    sources = pair_sources(pair)
    report = validate_citations(answer, sources)
    yield from _compared("ids read", set(report.cited_ids), {*pair["cited"], *pair["invalid"]})
    yield from _compared("unknown ids", set(report.invalid_ids), set(pair["invalid"]))
    uncited = {answer[s.start : s.end] for s in report.uncited}
    yield from _compared("sentences without a source", uncited, set(pair["uncited"]))
    quotes = pair["quotes"]
    for quote, check in zip(
        quotes, check_quotes([(q["source_id"], q["quote"]) for q in quotes], sources), strict=True
    ):
        yield "quotes refused", quote["quote"], check.status != "found", quote["label"] != "verbatim"
        yield "quotes too short", quote["quote"], check.status == "too_short", quote["label"] == "too_short"
    yield from _numbers(answer, report, pair["unsupported_numbers"])
    # What the quick checks see of cited sentences that their sources do not support, for whatever reason.
    doubted = {sentence for sentence, _ in check_numbers(report)}
    wrong = [*pair["unsupported_numbers"], *pair["unfaithful"]]
    for sentence in report.sentences:
        said = answer[sentence.start : sentence.end]
        if sentence.ids:
            yield "cited sentences that are wrong", said, sentence in doubted, any(piece in said for piece in wrong)


def _compared(check: str, flagged: set[str], labelled: set[str]) -> Iterator[Finding]:
    return ((check, item, item in flagged, item in labelled) for item in sorted(flagged | labelled))


def _numbers(answer: str, report: CitationReport, labels: list[str]) -> Iterator[Finding]:
    """A flagged number and a labelled piece of the answer are the same item if they overlap."""
    flagged = [(s.start + n.start, s.start + n.end) for s, numbers in check_numbers(report) for n in numbers]
    labelled = [(answer.index(label), answer.index(label) + len(label)) for label in labels]
    for start, end in labelled:
        found = any(a < end and start < b for a, b in flagged)
        yield "unsupported numbers", answer[start:end], found, True
    for start, end in flagged:
        if not any(a < end and start < b for a, b in labelled):
            yield "unsupported numbers", answer[start:end], True, False


def rows_of(found: dict[str, list[Finding]]) -> list[dict[str, Any]]:
    """Precision and recall of each check, over all languages and each of them, where there is something to count."""
    rows = []
    languages = ["all", *found]
    for check in dict.fromkeys(check for items in found.values() for check, *_ in items):
        for language in languages:
            chosen = found if language == "all" else [language]
            items = [finding for name in chosen for finding in found[name] if finding[0] == check]
            outcomes = {
                "precision": [float(true) for _, _, flagged, true in items if flagged],
                "recall": [float(flagged) for _, _, flagged, true in items if true],
            }
            for measure, values in outcomes.items():
                if values:
                    fields = results.interval_fields(bootstrap_ci(values))
                    rows.append({"check": check, "language": language, "measure": measure} | fields)
    return rows


def main() -> int:
    """Measure and record."""
    began = time.perf_counter()
    found: dict[str, list[Finding]] = defaultdict(list)
    for pair in load_pairs():
        for finding in findings(pair):
            found[pair["language"]].append(finding)
            if "--show" in sys.argv and finding[2] != finding[3]:
                print(
                    pair["id"], finding[0], "missed" if finding[3] else "flagged wrongly", repr(finding[1]), sep="  "
                )
    rows = rows_of(found)
    for row in rows:
        if row["language"] == "all":
            print(row["check"], row["measure"], results.show_interval(row, 2), f"n={row['n']}", sep="  ")
    results.write_result(
        "citation_checks",
        rows,
        model="none (rules)",
        data="data/citation_pairs.jsonl: answers and sources written by hand, by the author of the checks",
        sha256=results.digest([PAIRS]),
        command=COMMAND,
        seconds=time.perf_counter() - began,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
