"""Sources as answers cite them, made from plain texts."""

from rag_lab.prompting.templates import Source, assign_sources
from rag_lab.types import Chunk


def sources(*texts: str, title: str = "Handbook", uri: str = "", section_path: tuple[str, ...] = ()) -> list[Source]:
    """S1, S2 … with the texts given."""
    return assign_sources(
        [Chunk(f"doc{i}", 0, text, 0, len(text), title, uri, section_path) for i, text in enumerate(texts)]
    )
