"""TODO"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Document:
    """A text with an identity. ``text`` is never changed after loading: every offset counts characters in it."""

    id: str
    text: str
    title: str = ""
    uri: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """A piece of one document: ``text == document.text[start:end]``, always.

    ``context`` is text that situates the chunk in its document (see ``contextual``); it is kept apart from ``text``.
    """

    doc_id: str
    index: int
    text: str
    start: int
    end: int
    title: str = ""
    uri: str = ""
    section_path: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    context: str = ""

    @property
    def id(self) -> str:
        """``"doc#3"``: the document's id and the chunk's index in it."""
        return f"{self.doc_id}#{self.index}"

    @property
    def contextual_text(self) -> str:
        """What is embedded and indexed: context, blank line, text; only the text where there is no context."""
        return f"{self.context}\n\n{self.text}" if self.context else self.text


@dataclass(frozen=True)
class GoldSpan:
    """Characters ``start`` to ``end`` (exclusive) of a document's text."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers and the characters that hold them; none of either where nothing answers.

    ``reference`` names what a chunk loses that is cut from its document: pronoun, heading, amount and so on.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[GoldSpan, ...]
    reference: str = ""
    language: str = "en"

    @property
    def answerable(self) -> bool:
        """Whether the documents hold an answer."""
        return bool(self.gold)


@dataclass(frozen=True)
class Corpus:
    """Documents and questions about them."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class RetrievalSet:
    """Queries by id, and for each the graded ids: of chunks where the set brings chunks, else of documents."""

    name: str
    documents: tuple[Document, ...]
    queries: Mapping[str, str]
    relevance: Mapping[str, Mapping[str, int]]
    chunks: tuple[Chunk, ...] = ()


CharSpan = tuple[int, int]


@dataclass(frozen=True)
class Hit:
    """A chunk that was found, its score (higher is better; comparable within one search) and its rank from 1."""

    chunk: Chunk
    score: float
    rank: int


Retriever = Callable[[str, int], list[Hit]]
Where = Callable[[Chunk], bool]
