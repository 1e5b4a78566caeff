"""The values that the rooms share: documents, chunks, questions, corpora, hits, and the type of a retriever."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Document:
    """A text with an id. ``text`` never changes after loading, because offsets count its characters."""

    id: str
    text: str
    title: str = ""
    uri: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """A part of one document; ``text == document.text[start:end]`` always holds.

    ``context`` is text that situates the chunk in its document (see ``retrieval.contextual``), apart from ``text``.
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
        """The text to embed and index: context, blank line, text; only the text if there is no context."""
        return f"{self.context}\n\n{self.text}" if self.context else self.text


@dataclass(frozen=True)
class GoldSpan:
    """Characters ``start`` to ``end`` (exclusive) of a document's text."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers and their gold spans; both are empty if the documents do not answer it.

    ``reference`` names what an isolated chunk lacks: the referent of a pronoun, a heading, an amount and so on.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[GoldSpan, ...]
    reference: str = ""
    language: str = "en"

    @property
    def answerable(self) -> bool:
        return bool(self.gold)


@dataclass(frozen=True)
class Corpus:
    """Documents and questions about them."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class RetrievalSet:
    """Queries by id, with graded ids for each: of ``chunks`` if the set has its own, else of documents."""

    name: str
    documents: tuple[Document, ...]
    queries: Mapping[str, str]
    relevance: Mapping[str, Mapping[str, int]]
    chunks: tuple[Chunk, ...] = ()


CharSpan = tuple[int, int]


@dataclass(frozen=True)
class Hit:
    """A retrieved chunk, its score (higher is better; comparable within one search) and its rank from 1."""

    chunk: Chunk
    score: float
    rank: int


Retriever = Callable[[str, int], list[Hit]]
Where = Callable[[Chunk], bool]
