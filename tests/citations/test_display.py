"""The notebook display: what it says, and that nothing from models or documents becomes markup."""

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.citations.display import AnswerView, show_answer
from rag_lab.citations.quotes import check_quotes
from rag_lab.citations.validation import build_report, check_numbers, validate_citations
from rag_lab.prompting.citation_markers import Citation
from tests.support.cited_sources import sources

TAGS = {"div", "style", "span", "a", "ul", "li", "details", "summary", "mark", "p"}
ATTRIBUTES = {"class", "dir", "href", "hidden", "id", "rel", "role", "style"}


class Page(HTMLParser):
    """Tags, attributes, visible text, links and the marked pieces of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.marked: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.anchors += [value or "" for name, value in attrs if name == "id"]
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] != "style":
            self.text += data
        if self._open[-1] == "mark":
            self.marked.append(data)


def view(answer: str, texts: list[str], quotes: list[tuple[str, str]] | None = None, **fields: str) -> AnswerView:
    given = sources(*texts, **fields)
    report = validate_citations(answer, given)
    return show_answer(answer, report, check_quotes(quotes or [], given), check_numbers(report))


def test_passages_beside_markers_stay_hidden_without_the_style_sheet() -> None:
    """JupyterLab strips "hidden" and the style sheet from notebooks that are not trusted, but not "style"."""
    html = view("Dogs [S1] and cats [S1][S2].", ["Dogs may come.", "Cats too."]).html
    assert html.count('<span class="passage"') == 3
    assert html.count(' hidden style="display: none">') == 3


def test_markers_become_links_to_their_passages() -> None:
    page = Page(view("Dogs are allowed [S1, S2].", ["Dogs may come.", "Dogs stay."]).html)
    first, second = page.anchors
    assert page.links == [f"#{first}", f"#{second}"]
    assert first.endswith("-S1")
    assert page.text.startswith("Dogs are allowed [S1]Handbook\nDogs may come.[S2]Handbook\nDogs stay..")


def test_the_quote_is_highlighted_in_its_passage() -> None:
    quotes = [("S1", "may come on Fridays"), ("S1", "on  Fridays only, if")]
    page = Page(view("Dogs [S1].", ["Dogs may come on Fridays only, if calm."], quotes).html)
    # Two overlapping quotes make one stretch, shown on hover and in the list.
    assert page.marked == ["may come on Fridays", " only, if"] * 2


def test_problems_are_named_in_words() -> None:
    shown = view(
        "Dogs are allowed [S9]. Staff get 30 days [S1]. Cats are not.",
        ["Staff get 20 days."],
        [("S1", "Cats are never allowed"), ("S1", "20"), ("S7", "x y z")],
    )
    expected = [
        "[S9] ⚠ no such source",
        "30 days ⚠ not in the source",
        "Cats are not. ⚠ no source",
        "1 of 3 sentences cite a source.",
        "⚠ no such source: S9",
        "⚠ quote not in this source: [S1] “Cats are never allowed”",
        "⚠ quote too short to prove anything: [S1] “20”",
        "⚠ quote from a source that does not exist: [S7] “x y z”",
    ]
    text = Page(shown.html).text
    assert [words for words in expected if words not in text] == []
    assert repr(shown) == (
        "Dogs are allowed [S9] (! no such source). Staff get 30 days (! not in the source) [S1]. "
        "Cats are not. (! no source)\n\n[S1] Handbook\n1 of 3 sentences cite a source.\n⚠ no such source: S9\n"
        "⚠ quote not in this source: [S1] “Cats are never allowed”\n"
        "⚠ quote too short to prove anything: [S1] “20”\n"
        "⚠ quote from a source that does not exist: [S7] “x y z”"
    )


def test_a_marker_in_quoted_words_is_not_a_citation() -> None:
    given = sources("Dogs may come, see [S2].", "Cats stay.")
    text = "Dogs may come, see [S2]. [S1]"
    shown = show_answer(text, build_report(text, [Citation(25, 29, "[S1]", ("S1",))], (), given))
    assert repr(shown).splitlines()[0] == "Dogs may come, see [S2] (no citation). [S1]"
    page = Page(shown.html)
    assert page.text.startswith("Dogs may come, see [S2] (no citation). [S1]")
    assert [link[-3:] for link in page.links] == ["-S1"]


def test_a_notebook_is_given_html() -> None:
    shown = view("Dogs [S1].", ["Dogs."])
    assert shown._repr_html_() == shown.html


def test_titles_sections_and_addresses_are_shown() -> None:
    fields = {"title": "Pets", "uri": "https://example.org/?a=1&b=<2>"}
    given = sources("Dogs.", section_path=("Office", "Dogs"), **fields)
    shown = show_answer("Dogs [S1].", validate_citations("Dogs [S1].", given))
    page = Page(shown.html)
    assert page.links[-1] == "https://example.org/?a=1&b=<2>"
    assert "Pets › Office › Dogs" in page.text
    assert "[S1] Pets › Office › Dogs <https://example.org/?a=1&b=<2>>" in repr(shown)


def test_a_title_that_is_the_first_heading_too_is_shown_once() -> None:
    given = sources("Dogs.", section_path=("Pets", "Dogs"), title="Pets")
    assert "[S1] Pets › Dogs" in repr(show_answer("Dogs [S1].", validate_citations("Dogs [S1].", given)))
    given = sources("Tea.", section_path=("Cafe\u0301",), title="Caf\u00e9")  # written in the other normal form
    shown = repr(show_answer("Tea [S1].", validate_citations("Tea [S1].", given)))
    assert "[S1] Caf\u00e9" in shown
    assert "›" not in shown


def test_only_web_addresses_are_linked() -> None:
    for uri in ("javascript:alert(1)", " https://example.org", "data:text/html,x", "//example.org", "file:///x"):
        page = Page(view("Dogs [S1].", ["Dogs."], uri=uri).html)
        assert [link for link in page.links if not link.startswith("#")] == []
        assert uri in page.text


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert "\x1b" not in repr(view("Dogs \x1b[31m [S1].", ["Dogs \x9b."], title="\x07"))


SIGNS = "<script> </div> </style> <!-- --> \"> '> & &lt; &#x3c; <img onerror=x> ]]> [S1] [S9] ` $x$ \u202e 狗 כלב 30"
HOSTILE = st.lists(st.sampled_from([*SIGNS.split(), " ", "\n"]), max_size=12).map("".join)


@settings(max_examples=100, deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_nothing_from_outside_becomes_markup(answer: str, passage: str, title: str, quote: str) -> None:
    shown = view("[S1] " + answer, [passage], [("S1", quote), (title, quote)], title=title, uri=quote)
    page = Page(shown.html)
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert "<!--" not in shown.html
    assert f"{title}\n{passage}" in page.text
    assert all(link.startswith("#rag-lab-") for link in page.links)
