"""Which sources an answer cites, sentence by sentence, for a whole answer and for one that is being written.

The checks of quotes (``grounding``) and numbers (``numbers``) are offered here too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.prompting.build import MISSING, REFUSAL
from rag_lab.prompting.citation_markers import Citation, MarkerEvent, MarkerScanner
from rag_lab.prompting.templates import Source
from rag_lab.text.numbers import Number, unsupported_numbers
from rag_lab.text.segmentation import sentences
from rag_lab.types import CharSpan


@dataclass(frozen=True)
class CitedSentence:
    """One sentence of an answer, ``answer[start:end]`` with the markers behind it, and the ids it carries.

    ``claim`` is the same text with its markers blanked out, so that offsets in it are offsets from ``start``. ``ids``
    holds those of given sources, ``invalid_ids`` the others; each once, in their order.
    """

    start: int
    end: int
    claim: str
    ids: tuple[str, ...]
    invalid_ids: tuple[str, ...]


@dataclass(frozen=True)
class CitationReport:
    """What an answer cites. ``sources``: the cited ones, in the order of their first citation.

    ``invalid_ids``: cited ids that no given source has. ``uncited``: the sentences that cite no given source, so
    their number is ``len(uncited)``; a sentence with invalid ids only is one of them. ``coverage``: the share of
    sentences that do cite one, in [0, 1], and 0 where there is no sentence. ``citations``: every marker.
    """

    sources: tuple[Source, ...]
    invalid_ids: tuple[str, ...]
    uncited: tuple[CitedSentence, ...]
    coverage: float
    sentences: tuple[CitedSentence, ...]
    citations: tuple[Citation, ...]

    @property
    def cited_ids(self) -> tuple[str, ...]:
        """Every id cited, valid or not, in the order of the first citation."""
        return tuple(dict.fromkeys(id_ for citation in self.citations for id_ in citation.ids))


def validate_citations(answer: str, sources: Sequence[Source]) -> CitationReport:
    """What ``answer`` cites of ``sources``, whose ids are S1, S2 …; ValueError where two share an id.

    Markers are read as ``markers.MarkerScanner`` says. A marker belongs to the sentence it stands in, and one between
    two sentences to the first, if they are on the same line. Headings, fenced code, lines without a word, beginnings
    of lists ("… are:"), and what the prompt has the model say of an answer that the sources lack claim nothing and
    are no sentences here. Linear in the length of the answer.
    """
    stream = CitationStream(sources)
    stream.feed(answer)
    stream.close()
    return stream.report


def check_numbers(report: CitationReport) -> list[tuple[CitedSentence, list[Number]]]:
    """The sentences with unsupported numbers, each held against all that it cites, titles and sections included.

    Offsets of the numbers count from the sentence's ``start``. Sentences that cite nothing are not checked.
    """
    texts = {source.id: "\n".join([source.title, *source.section_path, source.text]) for source in report.sources}
    checked = [
        (sentence, unsupported_numbers(sentence.claim, "\n\n".join(texts[id_] for id_ in sentence.ids)))
        for sentence in report.sentences
        if sentence.ids
    ]
    return [(sentence, numbers) for sentence, numbers in checked if numbers]


class CitationStream:
    """The events of an answer while it is being written, and in the end the report of ``validate_citations``.

    ``feed`` returns text and citations that are certain, in order; their texts joined are the answer. It holds back
    a marker that is not finished, and one that the next character may show to be a link ("[S1](…").
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = _by_id(sources)
        self._scanner = MarkerScanner()
        self._deltas: list[str] = []
        self._report: CitationReport | None = None

    def feed(self, delta: str) -> list[MarkerEvent]:
        """What has become certain; RuntimeError after ``close``."""
        if self._report:
            raise RuntimeError("This CitationStream is closed: make a new one for the next answer.")
        self._deltas.append(delta)
        return self._scanner.feed(delta)

    def close(self) -> list[MarkerEvent]:
        """The rest of the events; the answer is complete, or broken off. Closing twice does nothing."""
        if self._report:
            return []
        events = self._scanner.close()
        answer = "".join(self._deltas)
        self._report = report(answer, self._scanner.citations, self._scanner.fences, list(self._sources.values()))
        return events

    @property
    def report(self) -> CitationReport:
        """The report on all that was fed; RuntimeError before ``close``."""
        if self._report is None:
            raise RuntimeError("The report is there after close().")
        return self._report


def report(
    answer: str, citations: Sequence[Citation], fences: Sequence[CharSpan], sources: Sequence[Source]
) -> CitationReport:
    """The report on an answer whose markers (``citations``) and fenced code (``fences``) are known, both in order."""
    known = _by_id(sources)
    blank = blanked(answer, [(citation.start, citation.end) for citation in citations])
    spans = [span for span in _trimmed(blanked(blank, fences)) if _claims(blank[slice(*span)])]
    carried = _carried(answer, citations, spans)
    found = []
    for (start, end), own in zip(spans, carried, strict=True):
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
    """``text`` with spaces for what lies in ``spans``, line ends kept: offsets stay as they are."""
    pieces, last = [], 0
    for start, end in spans:
        pieces += [text[last:start], "".join("\n" if c == "\n" else " " for c in text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def _trimmed(text: str) -> list[CharSpan]:
    """Sentences without white space around them."""
    found = []
    for start, end in sentences(text, 0, len(text)):
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        found.append((start, start + len(piece.strip())))
    return found


def _claims(sentence: str) -> bool:
    """Whether a sentence says something that wants a source."""
    has_word = any(map(str.isalnum, sentence))
    return has_word and not sentence.startswith(("#", REFUSAL, MISSING)) and not sentence.endswith((":", "："))


def _carried(answer: str, citations: Sequence[Citation], spans: Sequence[CharSpan]) -> list[list[Citation]]:
    """The citations of each sentence. Both are in order, so one walk over them will do."""
    carried: list[list[Citation]] = [[] for _ in spans]
    following = 0  # the first sentence that ends after the citation begins
    for citation in citations:
        while following < len(spans) and spans[following][1] <= citation.start:
            following += 1
        if following < len(spans) and spans[following][0] <= citation.start:
            carried[following].append(citation)
        elif following and (following == len(spans) or not _opens_line(answer, citation, spans, following)):
            carried[following - 1].append(citation)
        elif following < len(spans):
            carried[following].append(citation)
    return carried


def _opens_line(answer: str, citation: Citation, spans: Sequence[CharSpan], following: int) -> bool:
    """Whether a citation between two sentences begins the line of the second: "…\\n[S1] Dogs are allowed."."""
    line_ends_before = "\n" in answer[spans[following - 1][1] : citation.start]
    return line_ends_before and "\n" not in answer[citation.end : spans[following][0]]
