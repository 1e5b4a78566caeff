"""Sentences, headings, numbers and accepted answers in texts of any script."""

from rag_lab.text.answer_matching import best_subspan_em, contains_answer
from rag_lab.text.numbers import find_numbers, unsupported_numbers
from rag_lab.text.segmentation import headings, paragraphs, sections, sentences

__all__ = [
    "best_subspan_em",
    "contains_answer",
    "find_numbers",
    "headings",
    "paragraphs",
    "sections",
    "sentences",
    "unsupported_numbers",
]
