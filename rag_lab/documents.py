"""Documents and the chunks cut from them."""

from collections.abc import Mapping
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
