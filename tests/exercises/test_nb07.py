"""Notebook 07's answer read by hand is what the library reads."""

from rag_lab.citations.validation import validate_citations
from rag_lab.exercises import nb07


def test_reading_agrees_with_the_library() -> None:
    """Read by hand; the library, which the exercise is to be checked against, reads the same."""
    report = validate_citations(nb07.ANSWER, nb07.SOURCES)
    uncited = [i for i, sentence in enumerate(report.sentences, 1) if sentence in report.uncited]
    assert {
        "cited": [source.id for source in report.sources],
        "invalid": list(report.invalid_ids),
        "uncited": uncited,
    } == nb07.READING
