"""A reader without a language model: it quotes and cites the sentences nearest to the question, or refuses.

The fast offline baseline that a language model has to beat.
"""

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_lab.answering.abstention import NO_PASSAGE
from rag_lab.answering.trace import Answer, Trace
from rag_lab.citations.quotes import QuoteCheck
from rag_lab.citations.validation import build_report, validate_citations
from rag_lab.models.encoder import Encoder, Vectors
from rag_lab.prompting.build import REFUSAL
from rag_lab.prompting.citation_markers import Citation
from rag_lab.prompting.templates import Source, assign_sources
from rag_lab.text.segmentation import sentences, strip_span
from rag_lab.types import CharSpan, Hit, Retriever

# The cosine of MiniLM from which the best sentence counts as an answer: at most one in 20 of the questions of the
# corpora cities and insurance, which all have an answer, lies below (see measure_generated_questions).
ANSWER_THRESHOLD = 0.5

CACHED_PASSAGES = 10_000  # whose sentence vectors are kept, 4 · d bytes per sentence


@dataclass(frozen=True)
class ScoredSentence:
    """``source.text[start:end]``, and its cosine with the question."""

    source: Source
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        """The sentence, verbatim."""
        return self.source.text[self.start : self.end]


class ExtractiveReader:
    """Answers with the ``count`` sentences that have the highest cosine with the question by ``encoder``.

    It refuses if the best cosine is under ``threshold`` (None: never). Choose the threshold for the encoder and the
    documents: ``choose_threshold`` on the ``best_score`` of questions with and without an answer.
    """

    def __init__(self, encoder: Encoder, threshold: float | None = None, count: int = 1) -> None:
        if count < 1:
            raise ValueError(f"count is {count}; it is 1 or more.")
        if threshold is not None and math.isnan(threshold):
            raise ValueError("The threshold is not a number; leave it out to refuse nothing.")
        self.threshold = threshold
        self.count = count
        cached = functools.lru_cache(CACHED_PASSAGES)
        self._encode_question = cached(lambda question: encoder.encode([question], kind="query")[0])
        self._encode_passage = cached(functools.partial(_encode_sentences, encoder))

    def best(self, question: str, sources: Sequence[Source]) -> list[ScoredSentence]:
        """The ``count`` best sentences of the sources, best first, equal texts once; fewer if there are no more.

        Headings and lines without a letter or digit answer nothing and are left out.
        """
        query = self._encode_question(question)
        found: dict[str, ScoredSentence] = {}
        for source in sources:
            spans, vectors = self._encode_passage(source.text)
            for (start, end), score in zip(spans, (vectors @ query).round(6).tolist(), strict=True):
                sentence = ScoredSentence(source, start, end, score)
                found.setdefault(sentence.text, sentence)
        return sorted(found.values(), key=lambda sentence: -sentence.score)[: self.count]

    def best_score(self, question: str, hits: Sequence[Hit]) -> float:
        """The highest cosine of a sentence of the hits, in [-1, 1]; minus infinity if there is none."""
        best = self.best(question, assign_sources(hit.chunk for hit in hits))
        return best[0].score if best else -np.inf

    def answer(self, question: str, retriever: Retriever, k: int = 5) -> Answer:
        """The best sentences of the ``k`` best passages, each followed by its marker; else a refusal.

        All k passages are sources. No model is called, so ``trace.prompt`` is None and the usage is zero. The report
        has these markers only: "[S3]" in a passage's own text cites nothing. Raises ValueError if the question is
        blank or ``k`` is under 1.
        """
        if not question.strip() or k < 1:
            raise ValueError(f"The question is {question!r} and k {k}: ask something, of 1 passage or more.")
        started = time.perf_counter()
        hits = tuple(retriever(question, k))
        retrieved = time.perf_counter()
        sources = tuple(assign_sources(hit.chunk for hit in hits))
        best = self.best(question, sources)
        seconds = {"retrieve": retrieved - started, "complete": time.perf_counter() - retrieved}
        trace = Trace(question, hits, seconds=seconds)
        if best and (self.threshold is None or best[0].score >= self.threshold):
            text, citations = _cited(best)
            quotes = tuple(QuoteCheck(s.source.id, s.text, "found", (s.start, s.end)) for s in best)
            return Answer(text, "answered", sources, build_report(text, citations, (), sources), trace, quotes)
        if best:
            reason = f"no sentence over the threshold {self.threshold:.4g} (best {best[0].score:.4g})"
        else:
            reason = "no sentence in the passages found" if hits else NO_PASSAGE
        return Answer(REFUSAL, "refused", sources, validate_citations(REFUSAL, sources), trace, (), reason)


def _cited(best: Sequence[ScoredSentence]) -> tuple[str, list[Citation]]:
    """The sentences, one per line, each followed by its marker; and these markers."""
    text, citations = "", []
    for sentence in best:
        marker = f"[{sentence.source.id}]"
        text += f"{sentence.text} {marker}\n"
        citations.append(Citation(len(text) - 1 - len(marker), len(text) - 1, marker, (sentence.source.id,)))
    return text.removesuffix("\n"), citations


def _encode_sentences(encoder: Encoder, text: str) -> tuple[list[CharSpan], Vectors]:
    """The sentences of a passage that may answer, without surrounding white space, and a vector for each."""
    stripped = [strip_span(text, *span) for span in sentences(text, 0, len(text))]
    spans = [(a, b) for a, b in stripped if any(map(str.isalnum, text[a:b])) and text[a] != "#"]
    if not spans:
        return [], np.zeros((0, encoder.dimension), np.float32)
    return spans, encoder.encode([text[start:end] for start, end in spans])
