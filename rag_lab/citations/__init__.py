"""Whether an answer's citations, quotes and numbers hold, and how they are shown."""

from rag_lab.citations.display import show_answer
from rag_lab.citations.faithfulness import judge
from rag_lab.citations.quotes import check_quotes, ground_quote
from rag_lab.citations.validation import CitationStream, check_numbers, validate_citations

__all__ = [
    "CitationStream",
    "check_numbers",
    "check_quotes",
    "ground_quote",
    "judge",
    "show_answer",
    "validate_citations",
]
