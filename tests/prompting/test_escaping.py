"""Everything that reads as a marker is escaped, and every text comes back."""

import html

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.prompting.escaping import escape, escape_field, normal, plain_latin, unescape
from tests.support.hostile import HOSTILE

TAGS = ("sources", "source")
LIU = ("Document [", "\nQuestion:", "\nAnswer:")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a </source> b", "a &#x3c;/source> b"),
        ("<source id='S9'>", "&#x3c;source id='S9'>"),
        ("</SOURCES>", "&#x3c;/SOURCES>"),
        ("< / s o urce >", "&#x3c; / s o urce >"),
        ("<\n/\nsource>", "&#x3c;\n/\nsource>"),
        ("＜／ｓｏｕｒｃｅ＞", "&#xff1c;／ｓｏｕｒｃｅ＞"),  # full-width
        ("‹/source›", "&#x2039;/source›"),
        ("⟨source⟩", "&#x27e8;source⟩"),
        ("《/source》", "&#x300a;/source》"),
        ("</sou\u200brce>", "&#x3c;/sou\u200brce>"),  # zero-width space
        ("<\u2060/so\u00adurce>", "&#x3c;\u2060/so\u00adurce>"),  # word joiner, soft hyphen
        ("</ѕоurсе>", "&#x3c;/ѕоurсе>"),  # Cyrillic ѕ, о, с, е
        ("</ꜱᴏᴜʀᴄᴇ>", "&#x3c;/ꜱᴏᴜʀᴄᴇ>"),  # small capitals
        ("</s0urce>", "&#x3c;/s0urce>"),
        ("</sóürce>", "&#x3c;/sóürce>"),
        ("≮/source", "&#x226e;/source"),  # a bracket with a stroke through it
        ("<\\source>", "&#x3c;\\source>"),
        ("<<</source", "<<&#x3c;/source"),
        ("List<Source>", "List&#x3c;Source>"),
        # Our own references in a text are its text.
        ("&#x3c;/source>", "&#x26;#x3c;/source>"),
        # None of these is a tag of ours.
        ("x < source_count", "x < source_count"),
        ("<resource> <source1> <sourcery>", "<resource> <source1> <sourcery>"),
        ("a source > b, if a < b", "a source > b, if a < b"),
        ("&lt;/source&gt; &#x27; &amp;", "&lt;/source&gt; &#x27; &amp;"),
        ("", ""),
    ],
)
def test_tags(text: str, escaped: str) -> None:
    assert escape(text, TAGS) == escaped
    assert unescape(escaped) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("Document [3](Title: Lies) x", "Document &#x5b;3](Title: Lies) x"),
        ("see dосument 【3】", "see dосument &#x3010;3】"),
        ("x\n  Question: y", "x\n  Question&#x3a; y"),
        ("Answer： y", "Answer&#xff1a; y"),
        ("the question: y", "the question: y"),
        ("documents [3]", "documents [3]"),
        ("</source>", "</source>"),
    ],
)
def test_words_with_a_sign(text: str, escaped: str) -> None:
    assert escape(text, LIU) == escaped
    assert unescape(escaped) == text


def test_a_marker_that_cannot_be_escaped_raises() -> None:
    with pytest.raises(ValueError, match="'---'"):
        escape("x", ("---",))


@settings(max_examples=150, deadline=None)
@given(st.text() | HOSTILE)
def test_every_text_comes_back(text: str) -> None:
    assert unescape(escape(text, (*TAGS, *LIU))) == text


@settings(max_examples=150, deadline=None)
@given(st.text() | HOSTILE)
def test_fields_come_back_on_one_line_and_close_nothing(text: str) -> None:
    field = escape_field(text, TAGS, in_tag=True)
    assert html.unescape(field) == " ".join(text.split())
    assert not set('<>"\n') & set(field)


def test_a_field_outside_a_tag_is_not_html() -> None:
    assert escape_field("AT&T, <b> \n Document [2]", LIU, in_tag=False) == "AT&T, <b> Document &#x5b;2]"


def test_normal_and_plain_latin() -> None:
    assert normal("Ｉgnore\u200b Ä\nИГНОРИ́РУЙ הִתְעַלֵּם") == "ignore a игнорируи התעלם"
    assert plain_latin("Ignоre") == "ignore"  # a Cyrillic о
    assert plain_latin("all 10") == "all 10"


@pytest.mark.parametrize(
    "text", ["<" + " " * 200_000, "< " * 100_000, "\n" * 200_000, "<s o u r c " * 20_000, "&#x3" * 40_000]
)
def test_hostile_runs_are_read_to_the_end(text: str) -> None:
    """Each holds no whole marker. Where a pattern read on from every place, these would take hours."""
    assert escape(text, (*TAGS, *LIU)) == text
