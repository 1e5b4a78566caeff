"""The hand-written answer/source pairs, and that the recorded figures are those of these pairs and these checks."""

import collections

from rag_lab import results
from tests.benchmarks.measure_citation_checks import PAIRS, findings, load_pairs, pair_sources


def test_there_are_enough_pairs_in_five_languages() -> None:
    pairs = load_pairs()
    count = collections.Counter(pair["language"] for pair in pairs)
    assert len(pairs) >= 60
    assert set(count) == {"en", "he", "fa", "ru", "zh"}
    assert min(count.values()) >= 12
    assert len({pair["id"] for pair in pairs}) == len(pairs)
    assert {pair["written_by"] for pair in pairs} == {"hand"}


def test_labels_speak_of_what_is_there() -> None:
    for pair in load_pairs():
        for piece in [*pair["uncited"], *pair["unsupported_numbers"], *pair["unfaithful"]]:
            assert pair["answer"].count(piece) == 1, (pair["id"], piece)
        known = {source.id for source in pair_sources(pair)}
        assert set(pair["cited"]) <= known
        assert not known.intersection(pair["invalid"])
        for quote in pair["quotes"]:
            assert quote["source_id"] in known
            assert quote["label"] in ("verbatim", "not_verbatim", "too_short")


def test_the_recorded_figures_are_current() -> None:
    """Precision and recall counted again, without the module that wrote them."""
    result = results.load_result("citation_checks")
    assert result["provenance"]["sha256"] == results.digest([PAIRS])
    items = [finding for pair in load_pairs() for finding in findings(pair)]
    assert items
    for row in result["rows"]:
        if row["language"] == "all":
            flagged_and_true = [(f, t) for check, _, f, t in items if check == row["check"]]
            given = [p for p in flagged_and_true if p[0 if row["measure"] == "precision" else 1]]
            assert row["n"] == len(given)
            assert abs(row["value"] - sum(f and t for f, t in given) / len(given)) < 1e-5
