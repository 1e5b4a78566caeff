"""Passages that read as instructions to the model: found by pattern and by embedding, then flagged or stripped."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import yaml

from rag_lab import settings
from rag_lab.chunking import slice_chunk
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.prompting.escaping import normal, plain_latin
from rag_lab.text.segmentation import sentences
from rag_lab.types import Chunk

Mode = Literal["off", "flag", "strip"]


@dataclass(frozen=True)
class Finding:
    """A sentence that reads as an instruction: characters ``start`` to ``end`` (exclusive) of the document's text.

    ``pattern`` is the language whose pattern it matches, or empty; ``similarity`` what the function of that name
    gives, or 0 where no encoder was given.
    """

    doc_id: str
    start: int
    end: int
    text: str
    pattern: str
    similarity: float


@dataclass(frozen=True)
class Cleaned:
    """The passages after ``clean_context_instructions``, and what was found in them."""

    chunks: tuple[Chunk, ...]
    findings: tuple[Finding, ...]


def find_instructions(
    chunks: Sequence[Chunk], encoder: Encoder | None = None, threshold: float | None = None
) -> list[Finding]:
    """Sentences that match a pattern of ``data/injection_detector.yaml``, or are near its instructions.

    Near is a ``similarity`` of ``threshold`` or more (default: the file's, chosen for MiniLM); without ``encoder``
    the patterns decide alone. ``data/results/injection_detector.json`` says how often either is right: a wording that
    the patterns do not know is mostly missed, and with MiniLM the embedding found nothing that they had missed. An
    instruction cut in two by a chunk's end is not seen whole. It is one guard of several, and never the only one.
    """
    found = [
        (chunk, start, end)
        for chunk in chunks
        for start, end in sentences(chunk.text, 0, len(chunk.text))
        if chunk.text[start:end].strip()
    ]
    texts = [chunk.text[start:end].strip() for chunk, start, end in found]
    similarities = similarity(texts, encoder) if encoder and texts else [0.0] * len(texts)
    least = _detector()["threshold"] if threshold is None else threshold
    return [
        Finding(chunk.doc_id, chunk.start + start, chunk.start + end, text, language, near)
        for (chunk, start, end), text, near in zip(found, texts, similarities, strict=True)
        if (language := matching_language(text)) or (encoder and near >= least)
    ]


def clean_context_instructions(chunks: Sequence[Chunk], mode: Mode, encoder: Encoder | None = None) -> Cleaned:
    """``off``: nothing is looked for. ``flag``: sentences are found and left (see ``templates.assign_sources``).

    ``strip``: they are cut out; what is left of a chunk becomes chunks of its own, and one of nothing else is gone.
    ValueError for another mode.
    """
    if parse_mode(mode) == "off":
        return Cleaned(tuple(chunks), ())
    findings = find_instructions(chunks, encoder)
    if mode == "flag":
        return Cleaned(tuple(chunks), tuple(findings))
    return Cleaned(tuple(piece for chunk in chunks for piece in _without(chunk, findings)), tuple(findings))


def parse_mode(value: str | bool) -> Mode:
    """A mode as a configuration gives it: by name, or false for ``off`` and true for ``strip``, as YAML reads both.

    ValueError for anything else.
    """
    mode = ("strip" if value else "off") if isinstance(value, bool) else value
    if mode not in get_args(Mode):
        raise ValueError(f"clean_context_instructions is {mode!r}; it is {', '.join(get_args(Mode))}.")
    return mode  # type: ignore[return-value]


def _without(chunk: Chunk, findings: Sequence[Finding]) -> list[Chunk]:
    cut = [finding for finding in findings if overlaps(finding, chunk)]
    if not cut:
        return [chunk]
    kept, last = [], 0
    for finding in sorted(cut, key=lambda finding: finding.start):
        kept.append((last, max(last, finding.start - chunk.start)))
        last = max(last, finding.end - chunk.start)
    return [piece for span in [*kept, (last, len(chunk.text))] for piece in slice_chunk(chunk, [span])]


def overlaps(finding: Finding, chunk: Chunk) -> bool:
    """Whether a part of what was found stands in ``chunk``."""
    return finding.doc_id == chunk.doc_id and finding.start < chunk.end and chunk.start < finding.end


def matching_language(sentence: str) -> str:
    """The first language of the detector with a pattern that ``sentence`` matches; empty for none."""
    text, latin = normal(sentence), plain_latin(sentence)
    if latin != text:
        text += f"\n{latin}"
    return next((language for language, pattern in _detector()["patterns"].items() if pattern.search(text)), "")


def similarity(texts: Sequence[str], encoder: Encoder) -> list[float]:
    """Each text's highest cosine with the detector's instructions; 0 where an ordinary sentence of it is nearer."""
    vectors = encoder.encode(texts)
    instructions, ordinary = ((vectors @ known.T).max(axis=1) for known in _exemplars(encoder))
    return (instructions * (instructions > ordinary)).tolist()


@functools.lru_cache(maxsize=2)
def _exemplars(encoder: Encoder) -> tuple[Vectors, Vectors]:
    detector = _detector()
    return encoder.encode(detector["instructions"]), encoder.encode(detector["ordinary"])


@functools.cache
def _detector() -> dict[str, Any]:
    detector = yaml.safe_load((settings.DATA / "injection_detector.yaml").read_text(encoding="utf-8"))
    detector["patterns"] = {
        language: re.compile("|".join(f"(?:{normal(pattern)})" for pattern in patterns), re.MULTILINE)
        for language, patterns in detector["patterns"].items()
    }
    return detector
