"""An answer in a notebook, with markers that link to their passages and the problems that the checks found."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import normalize

from rag_lab.citations.quotes import QuoteCheck
from rag_lab.citations.validation import CitationReport, CitedSentence
from rag_lab.prompting.citation_markers import Citation, find_citations
from rag_lab.prompting.templates import Source
from rag_lab.text.numbers import Number
from rag_lab.types import CharSpan

# Warnings have a sign and words, never colour alone. Passages stay hidden without the style sheet: for an untrusted
# notebook, JupyterLab drops it and "hidden", but keeps "style".
_STYLE = """<style>
.rag-lab-answer .answer, .rag-lab-answer .passage { white-space: pre-wrap; }
.rag-lab-answer .warning { border-bottom: 2px dashed currentColor; font-style: italic; }
.rag-lab-answer .cited { position: relative; }
.rag-lab-answer .cited:hover > .passage, .rag-lab-answer .cited:focus-within > .passage {
  display: block !important; position: absolute; z-index: 9; left: 0; top: 1.4em; width: 32em; max-height: 16em;
  overflow: auto; padding: .5em; border: 1px solid currentColor; background: Canvas; color: CanvasText; }
.rag-lab-answer mark { font-weight: bold; text-decoration: underline; }
</style>"""
# Control characters would act on a terminal.
_CONTROLS = {c: "�" for c in [*range(32), *range(127, 160)] if chr(c) not in "\n\t"}
_QUOTES = {
    "not_found": "quote not in this source",
    "too_short": "quote too short to prove anything",
    "no_such_source": "quote from a source that does not exist",
}


@dataclass(frozen=True, repr=False)
class AnswerView:
    """An answer with its checks, as HTML (shown by a notebook) and as plain text (shown by ``print``)."""

    html: str
    plain: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.plain


def show_answer(
    answer: str,
    report: CitationReport,
    quotes: Sequence[QuoteCheck] = (),
    numbers: Iterable[tuple[CitedSentence, Sequence[Number]]] = (),
) -> AnswerView:
    """``answer`` with its markers as links; the cited passages appear on hover and in a list below.

    ``report`` comes from ``validate_citations``, ``quotes`` from ``check_quotes`` (found ones are highlighted in the
    passages, others listed), ``numbers`` from ``check_numbers``. A marker outside the report is quoted text, and is
    labelled "no citation". Unknown ids, uncited sentences, missing quotes and numbers get a sign and words.
    Everything from models and documents is escaped.
    """
    known = {source.id: source for source in report.sources}
    warnings = [
        (sentence.start + number.start, sentence.start + number.end, "not in the source")
        for sentence, found in numbers
        for number in found
    ]
    warnings += [(sentence.end, sentence.end, "no source") for sentence in report.uncited if not sentence.invalid_ids]
    content = repr((answer, [(source.id, source.text) for source in report.sources]))
    page = "rag-lab-" + hashlib.sha256(content.encode()).hexdigest()[:8]
    highlights = {id_: [check.span for check in quotes if check.source_id == id_ and check.span] for id_ in known}

    def annotated(write: Callable[[str], str], link: Callable[[str], str], warn: Callable[[str, str], str]) -> str:
        """The answer by ``write``, but known ids by ``link``, and unknown ids and ``warnings`` by ``warn``."""

        def marker(citation: Citation) -> str:
            return "".join(link(i) if i in known else warn(f"[{i}]", "no such source") for i in citation.ids)

        places = [(c.start, c.end, marker(c)) for c in report.citations]
        quoted = set(find_citations(answer)) - set(report.citations)
        places += [(c.start, c.end, write(f"{c.text} (no citation)")) for c in quoted]
        places += [(start, end, warn(answer[start:end], why)) for start, end, why in warnings]
        return _replaced(answer, places, write)

    notes = _notes(report, quotes)
    body = annotated(
        escape,
        lambda id_: _html_link(page, known[id_], highlights[id_]),
        lambda text, why: f'<span class="warning">{escape(text)} ⚠ {why}</span>',
    )
    items = "".join(_html_source(page, source, highlights[source.id]) for source in report.sources)
    lines = "".join(f'<p dir="auto">{escape(note)}</p>' for note in notes)
    html = (
        f'<div class="rag-lab-answer tex2jax_ignore mathjax_ignore">{_STYLE}'
        f'<div class="answer" dir="auto">{body}</div><ul>{items}</ul>{lines}</div>'
    )
    text = annotated(str, "[{}]".format, "{} (! {})".format)
    listed = [f"[{s.id}] {_heading(s)}{f' <{s.chunk.uri}>' if s.chunk.uri else ''}" for s in report.sources]
    return AnswerView(html, "\n".join([text, "", *listed, *notes]).translate(_CONTROLS))


def _replaced(text: str, places: Iterable[tuple[int, int, str]], write: Callable[[str], str]) -> str:
    """The text by ``write``, with each range replaced; a range that begins inside another is left out."""
    pieces, last = [], 0
    for start, end, written in sorted(places):
        if start >= last:
            pieces += [write(text[last:start]), written]
            last = end
    return "".join([*pieces, write(text[last:])])


def _html_link(page: str, source: Source, spans: Sequence[CharSpan]) -> str:
    anchor = escape(f"#{page}-{source.id}")
    return (
        f'<span class="cited"><a href="{anchor}">[{escape(source.id)}]</a>'
        f'<span class="passage" role="tooltip" dir="auto" hidden style="display: none">{escape(_heading(source))}\n'
        f"{_highlighted(source.text, spans)}</span></span>"
    )


def _html_source(page: str, source: Source, spans: Sequence[CharSpan]) -> str:
    uri = escape(source.chunk.uri)
    if uri.lower().startswith(("https://", "http://")):  # any other (javascript:, data:) is shown, not linked
        uri = f'<a href="{uri}" rel="noreferrer noopener">{uri}</a>'
    return (
        f'<li id="{escape(f"{page}-{source.id}")}" dir="auto">[{escape(source.id)}] {escape(_heading(source))} {uri}'
        f'<details><summary>passage</summary><div class="passage" dir="auto">{_highlighted(source.text, spans)}</div>'
        "</details></li>"
    )


def _heading(source: Source) -> str:
    path = [normalize("NFC", part) for part in (source.chunk.title, *source.chunk.section_path)]
    return " › ".join(path[1:] if path[:1] == path[1:2] else path)  # a title is often the first heading too


def _highlighted(text: str, spans: Sequence[CharSpan]) -> str:
    """The text with a mark around each stretch that the spans cover."""
    pieces, last = [], 0
    for start, end in sorted(spans):
        start = max(start, last)
        if start < end:
            pieces += [escape(text[last:start]), f"<mark>{escape(text[start:end])}</mark>"]
            last = end
    return "".join([*pieces, escape(text[last:])])


def _notes(report: CitationReport, quotes: Sequence[QuoteCheck]) -> list[str]:
    cited = len(report.sentences) - len(report.uncited)
    notes = [f"{cited} of {len(report.sentences)} sentences cite a source."]
    if report.invalid_ids:
        notes.append(f"⚠ no such source: {', '.join(report.invalid_ids)}")
    notes += [f"⚠ {_QUOTES[q.status]}: [{q.source_id}] “{q.quote}”" for q in quotes if q.status != "found"]
    return notes
