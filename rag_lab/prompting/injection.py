"""Find sentences in passages that read as instructions to the model, by pattern and embedding; flag or strip them."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    ``pattern``: the language whose pattern it matches, or "". ``similarity``: as the function of that name computes
    it, or 0 without an encoder.
    """

    doc_id: str
    start: int
    end: int
    text: str
    pattern: str
    similarity: float


@dataclass(frozen=True)
class Cleaned:
    """The passages after ``clean_context_instructions``, and the sentences that it found."""

    chunks: tuple[Chunk, ...]
    findings: tuple[Finding, ...]


def find_instructions(
    chunks: Sequence[Chunk], encoder: Encoder | None = None, threshold: float | None = None
) -> list[Finding]:
    """Sentences that match a pattern of ``data/injection_detector.yaml``, or are similar to its instructions.

    Similar means a ``similarity`` of at least ``threshold`` (default: the file's, chosen for MiniLM). Without
    ``encoder`` only patterns count. ``data/results/injection_detector.json`` has the precision and recall: wordings
    without a pattern are mostly missed, and with MiniLM the embedding found none of these. An instruction that a
    chunk boundary splits is not seen whole. Use this as one guard of several.
    """
    found = [
        Finding(chunk.doc_id, chunk.start + start, chunk.start + end, text, matching_language(text), 0.0)
        for chunk in chunks
        for start, end in sentences(chunk.text, 0, len(chunk.text))
        if (text := chunk.text[start:end].strip())
    ]
    if not encoder or not found:
        return [finding for finding in found if finding.pattern]
    least = _detector()["threshold"] if threshold is None else threshold
    similarities = similarity([finding.text for finding in found], encoder)
    found = [replace(finding, similarity=near) for finding, near in zip(found, similarities, strict=True)]
    return [finding for finding in found if finding.pattern or finding.similarity >= least]


def clean_context_instructions(chunks: Sequence[Chunk], mode: Mode, encoder: Encoder | None = None) -> Cleaned:
    """``off``: does nothing. ``flag``: finds the sentences and keeps them (see ``templates.assign_sources``).

    ``strip``: cuts them out; the rest of the chunk is split into new chunks; a chunk with nothing left is dropped.
    Raises ValueError for another mode.
    """
    if parse_mode(mode) == "off":
        return Cleaned(tuple(chunks), ())
    findings = find_instructions(chunks, encoder)
    if mode == "flag":
        return Cleaned(tuple(chunks), tuple(findings))
    return Cleaned(tuple(piece for chunk in chunks for piece in _without(chunk, findings)), tuple(findings))


def parse_mode(value: str | bool) -> Mode:
    """The mode of a configuration value: a name, or False for ``off`` and True for ``strip``, as YAML reads these.

    Raises ValueError for any other value.
    """
    mode = ("strip" if value else "off") if isinstance(value, bool) else value
    if mode not in get_args(Mode):
        raise ValueError(f"clean_context_instructions is {mode!r}; set it to {', '.join(get_args(Mode))}.")
    return mode  # type: ignore[return-value]


def _without(chunk: Chunk, findings: Sequence[Finding]) -> list[Chunk]:
    cuts = sorted((f.start - chunk.start, f.end - chunk.start) for f in findings if overlaps(f, chunk))
    if not cuts:
        return [chunk]
    kept, last = [], 0
    for start, end in [*cuts, (len(chunk.text), 0)]:
        kept.append((last, max(last, start)))
        last = max(last, end)
    return [piece for span in kept for piece in slice_chunk(chunk, [span])]


def overlaps(finding: Finding, chunk: Chunk) -> bool:
    """Whether ``chunk`` has a part of the finding."""
    return finding.doc_id == chunk.doc_id and finding.start < chunk.end and chunk.start < finding.end


def matching_language(sentence: str) -> str:
    """The detector's first language with a pattern that ``sentence`` matches; "" if there is none."""
    text, latin = normal(sentence), plain_latin(sentence)
    if latin != text:
        text += f"\n{latin}"
    return next((language for language, pattern in _detector()["patterns"].items() if pattern.search(text)), "")


def similarity(texts: Sequence[str], encoder: Encoder) -> list[float]:
    """Each text's highest cosine with the detector's instructions; 0 if one of its ordinary sentences is nearer."""
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
