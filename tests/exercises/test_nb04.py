"""Notebook 04's answers agree with the library, and its check of shared contexts."""

from typing import Any

import pytest

from rag_lab.chunking import chunk_sentences
from rag_lab.exercises import nb04
from rag_lab.retrieval.contextual import add_heading_context
from rag_lab.types import Chunk, Document


def page(words: dict[int, str], heading: str = "Three") -> Document:
    """Six sections of five sentences: a heading is the beginning of its section's first sentence chunk."""
    lines = []
    for section, name in enumerate(["", "Two", heading, "Four", "Five", "Six"]):
        sentences = [f"Sentence {i} says {words.get(i, 'this')}." for i in range(5 * section, 5 * section + 5)]
        lines.append((f"## {name}\n\n" if name else "") + " ".join(sentences))
    return Document("page", "\n\n".join(lines), title="Page")


def test_redone_agrees_with_what_heading_context_does() -> None:
    """The answers for heading context, counted on a page like the exercise's (its opening sentence is chunk 0)."""

    def texts(document: Document) -> list[str]:
        chunks = [
            c for c in chunk_sentences(document, size=None) if not c.text.startswith("#") or "Sentence" in c.text
        ]
        return [chunk.contextual_text for chunk in add_heading_context(document, chunks)]

    before = texts(page({}))
    assert len(before) == 30
    changes = {"a": page({17: "that"}), "b": page({0: "that"}), "c": page({}, "Third")}
    for edit, document in changes.items():
        changed = sum(a != b for a, b in zip(before, texts(document), strict=True))
        assert changed == nb04.REDONE["heading"][edit], edit


def test_share_context(capsys: pytest.CaptureFixture[str]) -> None:
    chunks = [
        Chunk("d", i, text, i, i + 1, context=context)
        for i, (text, context) in enumerate([("a", "A"), ("b", "A"), ("c", "B"), ("d", ""), ("e", "B")])
    ]
    shared = "A\n\na\n\nb\n\nB\n\nc\n\nd\n\nB\n\ne"

    def words(text: str) -> int:
        return len(text.split())

    assert nb04.check_share_context(lambda _: shared, chunks, words) is None
    assert "9 tokens with every context, 8 with shared ones" in capsys.readouterr().out  # 5 texts, 4 or 3 contexts
    every = "\n\n".join(chunk.contextual_text for chunk in chunks)
    assert "only where" in str(nb04.check_share_context(lambda _: every, chunks, words))
    assert "d#4" in str(nb04.check_share_context(lambda _: shared[:-1], chunks, words))
    nothing: Any = lambda _: None  # noqa: E731
    assert "NoneType" in str(nb04.check_share_context(nothing, chunks, words))
