"""Markers in answers: what is read, what is not, and that cuts make no difference. Expected ids are read by eye."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.prompting.citation_markers import MAX_MARKER, Citation, MarkerScanner, TextDelta, find_citations


def ids(answer: str) -> list[tuple[str, ...]]:
    return [citation.ids for citation in find_citations(answer)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Dogs are allowed [S1].", [("S1",)]),
        ("Dogs are allowed[S1].", [("S1",)]),
        ("Dogs are allowed [S1][S3].", [("S1",), ("S3",)]),
        ("Dogs are allowed [S1, S3].", [("S1", "S3")]),
        ("Dogs are allowed [S1; S3, and S4].", [("S1", "S3", "S4")]),
        ("Dogs are allowed [S1–S3].", [("S1", "S2", "S3")]),
        ("Dogs are allowed [S1-3, S7].", [("S1", "S2", "S3", "S7")]),
        ("Dogs are allowed [S3—S1].", [("S1", "S2", "S3")]),
        ("Dogs are allowed [S1, 3].", [("S1", "S3")]),
        ("Dogs are allowed [S1 S1 S2].", [("S1", "S2")]),
        ("Dogs are allowed (S1).", [("S1",)]),
        ("Dogs are allowed (S1)(S3).", [("S1",), ("S3",)]),
        ("Dogs are allowed [ s1 ] ( S 2 ).", [("S1",), ("S2",)]),
        ("Dogs are allowed [S01].", [("S1",)]),
        ("**Dogs** are allowed **[S1]** (see [S2]).", [("S1",), ("S2",)]),
        ("כלבים מותרים במשרד [S1]. חתולים אסורים [S2 ו-S3].", [("S1",), ("S2", "S3")]),
        ("\u200fכלבים מותרים [\u200fS1\u200f, S2\u200e].", [("S1", "S2")]),
        ("سگ‌ها مجازند [S1، S۲].", [("S1", "S2")]),
        ("سگ‌ها مجازند (S۱۲).", [("S12",)]),
        ("Собаки разрешены [S1 и S2]; кошки нет (s3).", [("S1", "S2"), ("S3",)]),
        ("允许带狗【S1】，不允许带猫［Ｓ２］。", [("S1",), ("S2",)]),
        ("允许带狗（S1、S3），不允许带猫[S2和S4]。", [("S1", "S3"), ("S2", "S4")]),
    ],
)
def test_a_marker_in_any_of_its_forms_is_read(answer: str, expected: list[tuple[str, ...]]) -> None:
    assert ids(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "Call `get(x)[S1]` first.",
        "Call ``a`b [S1]`` first.",
        "```python\nrow = table[S1]\n```",
        "```\n[S1]\n",  # a fence that is never closed runs to the end
        "~~~\n``` [S1]\n~~~",
        "````\n```\n[S1]\n````",  # a shorter run of backticks closes nothing
        "An index such as x[S1], row_ids[S1], f()[S1], args[S1], m[0][S1].",
        "A call such as f(S1).",
        "data[S1]=3",
        "See [S1](https://example.org) and ![S1](a.png).",
        "See [the handbook][S1].",
        "[S1]: https://example.org/handbook",
        "[S2]: <page.html>",
        "Item [1], note (2), year [2024], S1 alone, [S], [], [S1a], [S1.5], [Section 1], [^S1], {S1}, <S1>.",
        "[S1, 2024]",
        "[S1, p. 3]",
        "[S1",
        "[S1)",
        "[S1234567]",
        "[S\U00016d70]",  # a digit newer than Python's tables
    ],
)
def test_code_indexes_links_and_numbers_that_look_like_ids_are_not_read(answer: str) -> None:
    assert ids(answer) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Use `x[S1]` for that [S2].", [("S2",)]),
        ("```\na[S1]\n```\n[S2]", [("S2",)]),
        ("```\na[S1]\n``` [S2]", [("S2",)]),  # lenient: CommonMark would not close the fence here
        ("A stray ` sign [S1]\nends with its line [S2].", [("S2",)]),
        ("Sana`a is old [S1].", [("S1",)]),  # a backtick written for an apostrophe
        ("צ`ק מתקבל [S1].", [("S1",)]),
        ("运行`x[S1]`即可[S2]。", [("S2",)]),
        ("[S1]: Dogs are allowed.", [("S1",)]),  # no address: not a link's definition
        ("See [S1](https://example.org) and [S2].", [("S2",)]),
        ("It weighs 5 g[S1]; it's[S2]; el año[S3]; _not_[S4].", [("S1",), ("S2",), ("S3",), ("S4",)]),
        ("[[S1]] and [see (S2)]", [("S1",), ("S2",)]),
        ("[S1, [S2]", [("S2",)]),
    ],
)
def test_what_is_ignored_ends_where_it_ends(answer: str, expected: list[tuple[str, ...]]) -> None:
    assert ids(answer) == expected


def test_a_wide_range_cites_its_two_ends() -> None:
    assert ids("[S1–S999999]") == [("S1", "S999999")]
    assert len(ids("[S1–S100]")[0]) == 100


def test_a_citation_knows_its_place() -> None:
    answer = "😀 כלבים [S1, S2] [S3]"
    expected = [Citation(8, 16, "[S1, S2]", ("S1", "S2")), Citation(17, 21, "[S3]", ("S3",))]
    assert find_citations(answer) == expected


def test_a_bracket_over_the_limit_is_text() -> None:
    longest = "[" + ",".join(["S1"] * 39) + "  ]"  # 1 + 39 * 2 + 38 + 2 + 1 = 120
    assert len(longest) == MAX_MARKER
    assert ids(longest) == [("S1",)]
    assert ids(longest[:-1] + " ]") == []


def test_only_a_possible_marker_is_held_back() -> None:
    scanner = MarkerScanner()
    assert scanner.feed("Dogs [S") == [TextDelta("Dogs ")]
    assert scanner.held == "[S"
    assert scanner.feed("1") == []
    assert scanner.feed("]") == []  # a link's address could follow
    assert scanner.feed(".") == [Citation(5, 9, "[S1]", ("S1",)), TextDelta(".")]
    assert scanner.feed(" [see") == [TextDelta(" [see")]  # no marker begins so
    assert scanner.feed(" [S2]") == [TextDelta(" ")]
    assert scanner.feed("(") == [TextDelta("[S2](")]
    assert scanner.feed("x) [S3]") == [TextDelta("x) ")]
    assert scanner.close() == [Citation(24, 28, "[S3]", ("S3",))]


SIGNS = "[S1] [S1,S2] (S3) 【S4】 [ ] ( ) ]( S 1 ` ``` ~~~ = : ! http x ， 允许 כלב 👩‍👩‍👧"
PIECES = st.sampled_from([*SIGNS.split(), " ", "\n", "\u200f", "e\u0301"])
ANSWERS = st.lists(PIECES, max_size=25).map("".join)


def merged(events: list) -> list:
    """Events with neighbouring texts joined, so that streams cut differently compare."""
    whole: list = []
    for event in events:
        if isinstance(event, TextDelta) and whole and isinstance(whole[-1], TextDelta):
            whole[-1] = TextDelta(whole[-1].text + event.text)
        else:
            whole.append(event)
    return whole


@settings(max_examples=150, deadline=None)
@given(ANSWERS, st.data())
def test_cuts_make_no_difference(answer: str, data: st.DataObject) -> None:
    whole = MarkerScanner()
    expected = merged(whole.feed(answer) + whole.close())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=10)))
    scanner = MarkerScanner()
    events = []
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        events += scanner.feed(answer[start:end])
        assert len(scanner.held) < MAX_MARKER + 20
        assert scanner.held[:1] in ("", *"[［【〔(（")
    assert merged(events + scanner.close()) == expected
    assert (scanner.citations, scanner.fences) == (whole.citations, whole.fences)
    assert "".join(event.text for event in expected) == answer
    assert all(answer[c.start : c.end] == c.text for c in whole.citations)


@pytest.mark.parametrize("piece", ["[", "]", "[S", "[ ", "`", "~", "\n", "S1,"])
def test_a_million_brackets_take_linear_time(piece: str) -> None:
    """A scanner that looked back or ahead without bound would need hours."""
    assert ids(piece * 1_000_000) == []


@pytest.mark.parametrize("piece", ["[S1", "[S1,", "[S1](", "\n[S1]:", "```\n", "(S1", "[S1]"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    answer = "[S1" + piece * 100_000
    scanner = MarkerScanner()
    events = scanner.feed(answer) + scanner.close()
    assert sum(len(event.text) for event in events) == len(answer)


@pytest.mark.parametrize("piece", ["[S1,", "`", " ", "[S1]"])
def test_hostile_text_in_single_characters_takes_linear_time(piece: str) -> None:
    scanner = MarkerScanner()
    length = sum(len(event.text) for character in piece * 30_000 for event in scanner.feed(character))
    assert length + len(scanner.held) == len(piece) * 30_000
