"""Reports on cited answers, whole and streamed. Expected sentences and ids are read by eye."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.citations.validation import CitationReport, CitationStream, validate_citations
from rag_lab.prompting.build import MISSING, REFUSAL
from rag_lab.prompting.citation_markers import Citation, TextDelta
from tests.support.cited_sources import sources

THREE = sources("one", "two", "three")
NO_CLAIMS = [REFUSAL, f"{MISSING} whether cats are allowed."]


def carried(answer: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each sentence with the ids it carries, valid ones first."""
    report = validate_citations(answer, THREE)
    return [(answer[s.start : s.end], s.ids + s.invalid_ids) for s in report.sentences]


def test_a_report_names_sources_ids_and_sentences() -> None:
    given = sources("one", "two", title="Pets", uri="https://example.org", section_path=("Office", "Dogs"))
    answer = "Dogs are allowed [S2][s9]. Cats are not. Dogs must be calm [S2, S1]."
    report = validate_citations(answer, given)
    assert report.sources == (given[1], given[0])
    chunk = given[1].chunk
    assert (given[1].id, chunk.title, chunk.section_path) == ("S2", "Pets", ("Office", "Dogs"))
    assert chunk.uri == "https://example.org"
    assert report.invalid_ids == ("S9",)
    assert report.cited_ids == ("S2", "S9", "S1")
    assert [answer[s.start : s.end] for s in report.uncited] == ["Cats are not."]
    assert report.coverage == pytest.approx(2 / 3)
    cited = [(("S2",), ("S9",)), ((), ()), (("S2", "S1"), ())]
    assert [(s.ids, s.invalid_ids) for s in report.sentences] == cited
    assert report.citations[0] == Citation(17, 21, "[S2]", ("S2",))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            "Dogs are allowed [S1]. Cats are not [S2].",
            [("Dogs are allowed [S1].", ("S1",)), ("Cats are not [S2].", ("S2",))],
        ),
        (  # behind the full stop, with and without a space
            "Dogs are allowed. [S1] Cats are not.[S2] Birds are.",
            [("Dogs are allowed. [S1]", ("S1",)), ("Cats are not.[S2]", ("S2",)), ("Birds are.", ())],
        ),
        (
            "允许带狗。【S1】不允许带猫[S2]。可以带鸟。",
            [("允许带狗。【S1】", ("S1",)), ("不允许带猫[S2]。", ("S2",)), ("可以带鸟。", ())],
        ),
        ("כלבים מותרים [S1]. חתולים אסורים.", [("כלבים מותרים [S1].", ("S1",)), ("חתולים אסורים.", ())]),
        ("سگ‌ها مجازند [S1]. گربه‌ها نه؟ [S2]", [("سگ‌ها مجازند [S1].", ("S1",)), ("گربه‌ها نه؟ [S2]", ("S2",))]),
        ("Собаки разрешены [S1]. Кошки нет!", [("Собаки разрешены [S1].", ("S1",)), ("Кошки нет!", ())]),
        (  # before the claim, at the beginning of its line
            "Two rules hold [S3].\n\n[S1] Dogs are allowed.\n\n[S2] Cats are not.",
            [("Two rules hold [S3].", ("S3",)), ("[S1] Dogs are allowed.", ("S1",)), ("[S2] Cats are not.", ("S2",))],
        ),
        ("Dogs are allowed.\n[S1][S2]", [("Dogs are allowed.\n[S1][S2]", ("S1", "S2"))]),
        (
            "- Dogs [S1]\n- Cats\n1. Birds [S2]",
            [("- Dogs [S1]", ("S1",)), ("- Cats", ()), ("1. Birds [S2]", ("S2",))],
        ),
        ("| Dogs | yes [S1] |\n| Cats | no |", [("| Dogs | yes [S1] |", ("S1",)), ("| Cats | no |", ())]),
    ],
)
def test_a_marker_belongs_to_the_claim_it_follows(answer: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert carried(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        "[S1][S2]",
        "# Pets in the office",
        "Allowed are:",
        "允许的有：",
        "---",
        "```\nprint(1)\n```",
        *NO_CLAIMS,
    ],
)
def test_text_without_a_claim_is_not_a_sentence(answer: str) -> None:
    report = validate_citations(answer, THREE)
    assert (report.sentences, report.uncited, report.coverage) == ((), (), 0.0)


def test_an_invalid_id_cites_nothing() -> None:
    report = validate_citations("Dogs are allowed [S7].", THREE)
    assert (report.sources, report.invalid_ids, report.coverage) == ((), ("S7",), 0.0)
    assert report.uncited == report.sentences


def test_a_claim_has_its_markers_blanked_and_its_offsets_kept() -> None:
    answer = "Staff get 20 days [S1]. They may carry 5 over (S2)."
    first, second = validate_citations(answer, THREE).sentences
    assert first.claim == "Staff get 20 days     ."
    assert second.claim.index("5") + second.start == answer.index("5")


def test_sources_need_ids_of_their_own() -> None:
    with pytest.raises(ValueError, match="4 sources share 3 ids"):
        validate_citations("Dogs [S1].", [*THREE, THREE[0]])


def test_a_report_can_be_written_as_json() -> None:
    report = validate_citations("Dogs [S1]. Cats [S9].", THREE)
    assert json.loads(json.dumps(asdict(report)))["invalid_ids"] == ["S9"]


def streamed(deltas: list[str]) -> tuple[list, CitationReport]:
    stream = CitationStream(THREE)
    events = [event for delta in deltas for event in stream.feed(delta)]
    events += stream.close()
    return events, stream.report


def test_a_marker_cut_into_pieces_is_one_event() -> None:
    events, report = streamed(["Dogs are allowed ", "[S", "1", "]", ". Cats", " [S9]"])
    assert [event for event in events if isinstance(event, Citation)] == [
        Citation(17, 21, "[S1]", ("S1",)),
        Citation(28, 32, "[S9]", ("S9",)),
    ]
    assert "".join(event.text for event in events) == "Dogs are allowed [S1]. Cats [S9]"
    assert report == validate_citations("Dogs are allowed [S1]. Cats [S9]", THREE)


def test_an_interrupted_stream_has_a_report() -> None:
    events, report = streamed(["Dogs are allowed [S1]. Cats are [S"])
    assert events[-1] == TextDelta(". Cats are [S") or events[-1] == TextDelta("[S")
    assert report == validate_citations("Dogs are allowed [S1]. Cats are [S", THREE)
    assert report.coverage == 0.5


def test_calls_out_of_order_raise() -> None:
    stream = CitationStream(THREE)
    with pytest.raises(RuntimeError, match="call close"):
        _ = stream.report
    stream.feed("Dogs")
    assert stream.close() == []
    assert stream.close() == []
    with pytest.raises(RuntimeError, match="closed"):
        stream.feed("more")


SIGNS = "Dogs bark [S1] [S2,S9] (S3) 。 允许 כלבים سگ [ S1 ] ( : ` 😀"
SPACED = (" ", ". ", "؟ ", "! ", "\n", "\n\n", "- ", "# ", "```\n", " [S1]", "e\u0301")
PIECES = st.sampled_from([*SIGNS.split(), *SPACED])


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join), st.data())
def test_the_stream_equals_the_whole(answer: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    deltas = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    events, report = streamed(deltas)
    assert report == validate_citations(answer, THREE)
    assert "".join(event.text for event in events) == answer
    assert tuple(event for event in events if isinstance(event, Citation)) == report.citations


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_sentences_are_apart_and_account_for_every_id(answer: str) -> None:
    report = validate_citations(answer, THREE)
    ends = [0] + [s.end for s in report.sentences]
    assert all(end <= s.start < s.end for end, s in zip(ends, report.sentences, strict=False))
    assert all(len(s.claim) == s.end - s.start for s in report.sentences)
    if report.sentences:
        inside = {id_ for s in report.sentences for id_ in s.ids + s.invalid_ids}
        assert inside == set(report.cited_ids)
    assert {source.id for source in report.sources} | set(report.invalid_ids) == set(report.cited_ids)


@pytest.mark.parametrize("piece", ["[", "[S1", "A b. [S1] ", "\n[S1]", "```\n", ". [", "[S1]"])
def test_hostile_answers_take_linear_time(piece: str) -> None:
    report = validate_citations(piece * 30_000, THREE)
    assert set(report.cited_ids) <= {"S1"}
