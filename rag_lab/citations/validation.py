"""Which sources an answer cites, sentence by sentence, for a complete answer and for one that is being written."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.prompting.build import MISSING, REFUSAL, begins_with
from rag_lab.prompting.citation_markers import Citation, MarkerEvent, MarkerScanner
from rag_lab.prompting.templates import Source
from rag_lab.text.numbers import Number, unsupported_numbers
from rag_lab.text.segmentation import sentences, strip_span
from rag_lab.types import CharSpan


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of an answer, ``answer[start:end]`` including the markers after it, and the ids it cites.

    ``claim`` is the same text with spaces for the markers, so offsets in it count from ``start``. ``ids`` are ids of
    given sources, ``invalid_ids`` the others; each once, in order.
    """

    start: int
    end: int
    claim: str
    ids: tuple[str, ...]
    invalid_ids: tuple[str, ...]


@dataclass(frozen=True)
class CitationReport:
    """What an answer cites. ``sources``: the cited ones, in the order of their first citation.

    ``invalid_ids``: cited ids that no given source has. ``uncited``: the sentences that cite no given source,
    including those with invalid ids only. ``coverage``: the share of sentences that cite a given source, in [0, 1];
    0 if there is no sentence. ``citations``: every marker.
    """

    sources: tuple[Source, ...]
    invalid_ids: tuple[str, ...]
    uncited: tuple[CitedSentence, ...]
    coverage: float
    sentences: tuple[CitedSentence, ...]
    citations: tuple[Citation, ...]

    @property
    def cited_ids(self) -> tuple[str, ...]:
        """All cited ids, valid or not, in the order of their first citation."""
        return tuple(dict.fromkeys(id_ for citation in self.citations for id_ in citation.ids))


def validate_citations(answer: str, sources: Sequence[Source]) -> CitationReport:
    """Which of ``sources`` (their ids are S1, S2 …) ``answer`` cites. Raises ValueError if two share an id.

    ``MarkerScanner`` finds the markers. A marker belongs to the sentence it is in; one between two sentences belongs
    to the first, unless it begins the second's line. Text that makes no claim is not a sentence here: headings,
    fenced code, lines without a word, introductions of lists ("… are:"), and what the prompt tells the model to say
    if the sources lack the answer. Takes time linear in the length of the answer.
    """
    stream = CitationStream(sources)
    stream.feed(answer)
    stream.close()
    return stream.report


def check_numbers(report: CitationReport) -> list[tuple[CitedSentence, list[Number]]]:
    """The sentences with numbers that none of their cited sources has, in text, title or section path.

    Offsets of the numbers count from the sentence's ``start``. Sentences without citations are not checked.
    """
    texts = {
        source.id: "\n".join([source.chunk.title, *source.chunk.section_path, source.text])
        for source in report.sources
    }
    checked = [
        (sentence, unsupported_numbers(sentence.claim, "\n\n".join(texts[id_] for id_ in sentence.ids)))
        for sentence in report.sentences
        if sentence.ids
    ]
    return [(sentence, numbers) for sentence, numbers in checked if numbers]


class CitationStream:
    """The events of an answer while it is being written, and at the end the report of ``validate_citations``.

    ``feed`` returns text and citations that are certain, in order; their joined texts are the answer. It holds back
    an incomplete marker, and one that the next character may turn into a link ("[S1](…").
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._scanner = MarkerScanner()
        self._deltas: list[str] = []
        self._report: CitationReport | None = None

    def feed(self, delta: str) -> list[MarkerEvent]:
        """The events that are certain now. Raises RuntimeError after ``close``."""
        if self._report:
            raise RuntimeError("This CitationStream is closed; make a new one for the next answer.")
        self._deltas.append(delta)
        return self._scanner.feed(delta)

    def close(self) -> list[MarkerEvent]:
        """The remaining events; the answer is complete or interrupted. A second call does nothing."""
        if self._report:
            return []
        events = self._scanner.close()
        answer = "".join(self._deltas)
        self._report = build_report(answer, self._scanner.citations, self._scanner.fences, self._sources)
        return events

    @property
    def report(self) -> CitationReport:
        """The report on the answer. Raises RuntimeError before ``close``."""
        if self._report is None:
            raise RuntimeError("There is no report yet; call close() after the last delta.")
        return self._report


def build_report(
    answer: str, citations: Sequence[Citation], fences: Sequence[CharSpan], sources: Sequence[Source]
) -> CitationReport:
    """The report on an answer with known markers (``citations``) and ranges of fenced code, both in order."""
    known = {source.id: source for source in sources}
    if len(known) < len(sources):
        raise ValueError(f"{len(sources)} sources share {len(known)} ids: give each its own (assign_sources).")
    blank = blanked(answer, [(citation.start, citation.end) for citation in citations])
    prose = blanked(blank, fences)
    stripped = [strip_span(prose, *span) for span in sentences(prose, 0, len(prose))]
    spans = [span for span in stripped if _needs_citation(blank[slice(*span)])]
    cited_in: list[list[Citation]] = [[] for _ in spans]
    for citation in citations if spans else ():
        cited_in[_sentence_of(citation, spans, answer)].append(citation)
    found = []
    for (start, end), own in zip(spans, cited_in, strict=True):
        start, end = min([start, *(c.start for c in own)]), max([end, *(c.end for c in own)])
        ids = dict.fromkeys(id_ for citation in own for id_ in citation.ids)
        valid = tuple(id_ for id_ in ids if id_ in known)
        invalid = tuple(id_ for id_ in ids if id_ not in known)
        found.append(CitedSentence(start, end, blank[start:end], valid, invalid))
    cited = dict.fromkeys(id_ for citation in citations for id_ in citation.ids)
    uncited = tuple(sentence for sentence in found if not sentence.ids)
    return CitationReport(
        tuple(known[id_] for id_ in cited if id_ in known),
        tuple(id_ for id_ in cited if id_ not in known),
        uncited,
        1 - len(uncited) / len(found) if found else 0.0,
        tuple(found),
        tuple(citations),
    )


def blanked(text: str, spans: Sequence[CharSpan]) -> str:
    """``text`` with spaces in place of ``spans``, except for line ends; offsets stay the same."""
    pieces, last = [], 0
    for start, end in spans:
        pieces += [text[last:start], "".join("\n" if c == "\n" else " " for c in text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def _needs_citation(sentence: str) -> bool:
    """Whether the sentence makes a claim that needs a citation."""
    if begins_with(sentence, REFUSAL) or begins_with(sentence, MISSING):
        return False
    return any(map(str.isalnum, sentence)) and not sentence.startswith("#") and not sentence.endswith((":", "："))


def _sentence_of(citation: Citation, spans: Sequence[CharSpan], answer: str) -> int:
    """The number of the citation's sentence: the one it is in, or the one before it.

    It is the one after if the citation begins its line ("…\\n[S1] Dogs may come."), or if there is none before.
    """
    following = bisect_right(spans, citation.start, key=lambda span: span[1])
    if following == len(spans):
        return following - 1
    if following == 0 or spans[following][0] <= citation.start:
        return following
    begins_line = "\n" in answer[spans[following - 1][1] : citation.start]
    return following if begins_line and "\n" not in answer[citation.end : spans[following][0]] else following - 1
