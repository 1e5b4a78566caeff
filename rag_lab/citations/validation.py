"""Which sources an answer cites, sentence by sentence, for a complete answer and for one that is being written."""

from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.prompting.build import MISSING, REFUSAL
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
    texts = {source.id: "\n".join([source.title, *source.section_path, source.text]) for source in report.sources}
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
        _by_id(sources)
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
    known = _by_id(sources)
    blank = blanked(answer, [(citation.start, citation.end) for citation in citations])
    prose = blanked(blank, fences)
    stripped = [strip_span(prose, *span) for span in sentences(prose, 0, len(prose))]
    spans = [span for span in stripped if _needs_citation(blank[slice(*span)])]
    found = []
    for (start, end), own in zip(spans, _citations_by_sentence(answer, citations, spans), strict=True):
        end = max([end, *(citation.end for citation in own)])
        start = min([start, *(citation.start for citation in own)])
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


def _by_id(sources: Sequence[Source]) -> dict[str, Source]:
    known = {source.id: source for source in sources}
    if len(known) < len(sources):
        raise ValueError(f"{len(sources)} sources share {len(known)} ids: give each its own (assign_sources).")
    return known


def blanked(text: str, spans: Sequence[CharSpan]) -> str:
    """``text`` with spaces in place of ``spans``, except for line ends; offsets stay the same."""
    pieces, last = [], 0
    for start, end in spans:
        pieces += [text[last:start], "".join("\n" if c == "\n" else " " for c in text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def _needs_citation(sentence: str) -> bool:
    """Whether the sentence makes a claim that needs a citation."""
    has_word = any(map(str.isalnum, sentence))
    return has_word and not sentence.startswith(("#", REFUSAL, MISSING)) and not sentence.endswith((":", "："))


def _citations_by_sentence(
    answer: str, citations: Sequence[Citation], spans: Sequence[CharSpan]
) -> list[list[Citation]]:
    """The citations of each sentence, in one pass, since both are in order."""
    found: list[list[Citation]] = [[] for _ in spans]
    following = 0  # the first sentence that ends after the citation begins
    for citation in citations if spans else ():
        while following < len(spans) and spans[following][1] <= citation.start:
            following += 1
        between = following == len(spans) or spans[following][0] > citation.start
        belongs_before = following and between and not _opens_line(answer, citation, spans, following)
        found[following - 1 if belongs_before else following].append(citation)
    return found


def _opens_line(answer: str, citation: Citation, spans: Sequence[CharSpan], following: int) -> bool:
    """Whether a citation after sentence ``following - 1`` begins the line of the next: "…\\n[S1] Dogs may come."."""
    if following == len(spans):
        return False
    new_line = "\n" in answer[spans[following - 1][1] : citation.start]
    return new_line and "\n" not in answer[citation.end : spans[following][0]]
