"""Questions generated about a small collection, by test doubles and by a server that bills for its answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from rag_lab.datasets import load_questions
from rag_lab.evaluation.questions import (
    Draft,
    NoDraft,
    QuestionReport,
    Record,
    draft,
    draft_prompt,
    generate_questions,
    report_questions,
)
from rag_lab.llm import recordings, spending
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.language_model import CallFailed, LanguageModel
from rag_lab.llm.prompt import Completion, Prompt, Usage
from rag_lab.storage import read_jsonl
from rag_lab.types import Chunk, Document
from tests.support.answer_doubles import Scripted
from tests.support.local_model import smollm2
from tests.support.messages_server import MessagesServer

LIBRARY = Document(
    "library", "# Library\n\nThe reading room seats 80 people. Members pay 12 crowns a year.", "Library"
)
WATER = Document("water", "# Wells\n\nThe town draws its water from two wells. A bill comes in March.", "Wells")
PLACES = Document("places", "# Seats\n\nThe chapel has room for 200 guests; its organ was built in 1911.", "Seats")
DOCUMENTS = [LIBRARY, WATER, PLACES]

DRAFTS: dict[str, dict[str, str]] = {
    "Library": {
        "positive": "How many seats are there for readers?",
        "quote": "The reading room seats 80 people.",
        "answer": "80",
        "negative": "Who designed the library?",
    },
    "Wells": {
        "positive": "Where does the town get its drinking water?",
        "quote": "The town draws its water from two wells.",
        "answer": "two wells",
        "negative": "How many guests fit into the chapel?",
    },
    "Seats": {
        "positive": "When was the instrument of the chapel made?",
        "quote": "its organ was built in 1911",
        "answer": "1911",
        "negative": "Who plays the organ on Sundays?",
    },
}


class Writer:
    """TEST DOUBLE: drafts from DRAFTS by title; answers a question with its draft's answer; checks by hand."""

    name, identity, dtype = "writer", "writer", ""
    window, thinking_tokens = 8192, 0
    enforces_schema, needs_prefill, paid = True, False, False

    def __init__(self, answers: str = "", **changes: dict[str, str]) -> None:
        self.drafts = {title: draft | changes.get(title, {}) for title, draft in DRAFTS.items()}
        self.answers = answers
        self.calls = 0
        self.dies_at = 0

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        return len(prompt.turns[-1].text) // 4

    def complete(
        self, prompt: Prompt, max_tokens: int = 256, temperature: float = 0.0, schema: dict[str, Any] | None = None
    ) -> Completion:
        self.calls += 1
        if self.calls == self.dies_at:
            raise CallFailed("the test double fails here")
        return Completion(reply(prompt.turns[-1].text, self.drafts, self.answers), Usage(), "end_turn")


def reply(asked: str, drafts: dict[str, dict[str, str]], answers: str = "") -> str:
    try:
        fields = json.loads(asked)
    except json.JSONDecodeError:
        known = [draft for draft in drafts.values() if draft["positive"] in asked]
        return f"{answers or known[0]['answer']} [S1]."
    if "passage" in fields:
        return json.dumps(drafts[fields["title"]])
    holder = next((p for p in fields["passages"] if "200 guests" in p["text"]), None)
    found = holder is not None and "guests fit" in fields["question"]
    quote = "has room for 200 guests" if found else ""
    return json.dumps({"answered": found, "source": holder["id"] if found and holder else "", "quote": quote})


def why(records: list[Record]) -> dict[str, str]:
    return {record["id"]: record["why"] for record in records}


def test_positives_and_negatives_are_made_checked_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "new" / "questions.jsonl"
    records = generate_questions(DOCUMENTS, Writer(), out)
    assert why(records) == {
        "library#0/positive": "",
        "library#0/negative": "",
        "water#0/positive": "",
        "water#0/negative": "answered elsewhere",
        "places#0/positive": "",
        "places#0/negative": "",
    }
    assert read_jsonl(out) == records
    assert records[3]["detail"] == "places#0: has room for 200 guests"
    found = report_questions(records)
    assert (found["positive"].kept, found["positive"].written) == (3, 3)
    negatives = found["negative"]
    assert (negatives.kept, negatives.searched, negatives.answered_elsewhere) == (2, 3, 1)
    assert negatives.refused == {"answered elsewhere": 1}
    # The file is like those of the corpora.
    questions = {question.id: question for question in load_questions(out, DOCUMENTS)}
    assert len(questions) == 5  # without the refused one
    positive = questions["library#0/positive"]
    assert positive.answers == ("80",)
    (span,) = positive.gold
    assert LIBRARY.text[span.start : span.end] == "The reading room seats 80 people."
    assert not questions["library#0/negative"].answerable


def library(**change: str) -> Writer:
    return Writer(Library=change)


COPY = "The reading room seats 80 people. Members pay 12 crowns?"


@pytest.mark.parametrize(
    ("writer", "why", "detail"),
    [
        (library(positive=""), "no question", ""),
        (library(positive="Tell me about the library."), "no question", ""),
        (library(positive="How long is the sentence?"), "about its wording", ""),
        (library(positive="The reading room seats how many people, 80 people?"), "holds its own answer", ""),
        (library(positive=COPY), "copies the passage", ""),
        (library(quote="It seats 90 people."), "quote not in the passage", "It seats 90 people."),
        (library(answer="12 crowns"), "answer not in the quote", ""),
        (library(answer=""), "answer not in the quote", ""),
        (Writer(answers="90"), "not answered with the passage given", "90 [S1]."),
        (Scripted("Sure!"), "no JSON", ""),
    ],
)
def test_positives_that_are_refused(tmp_path: Path, writer: LanguageModel, why: str, detail: str) -> None:
    record, negative = generate_questions([LIBRARY], writer, tmp_path / "q.jsonl")
    assert negative["kept"] == (why != "no JSON")
    assert record | {"id": "library#0/positive", "kept": False, "why": why, "detail": detail} == record


def test_a_folder_is_no_file_for_questions(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder; name a file"):
        generate_questions([LIBRARY], Writer(), tmp_path)


def test_duplicates_are_refused_against_all_that_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    by_hand = {"id": "mine", "text": "When was the instrument of the chapel made", "answers": [], "gold": []}
    out.write_text(json.dumps(by_hand | {"reference": "", "language": "en"}) + "\n", encoding="utf-8")
    change = {"negative": "How many seats there are for readers?"}
    records = generate_questions(DOCUMENTS, Writer(Library=change), out)
    assert why([r for r in records if "why" in r])["places#0/positive"] == "duplicate"
    assert next(r for r in records if r["id"] == "places#0/positive")["detail"] == "mine"
    assert next(r for r in records if r["id"] == "library#0/negative")["detail"] == "library#0/positive"


def test_a_document_can_be_asked_about_whole(tmp_path: Path) -> None:
    text = LIBRARY.text + "\n\n# Maps\n\nMaps are lent for one week."
    records = generate_questions(
        [Document("library", text, "Library")], Writer(), tmp_path / "q.jsonl", per="document"
    )
    assert [record["source"] for record in records] == ["library#0"] * 2


def test_bad_input_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    llm, out = Writer(), tmp_path / "q.jsonl"
    chunk = Chunk("library", 0, LIBRARY.text, 0, len(LIBRARY.text))
    for passages, per in (([], "chunk"), ([chunk], "document"), ([chunk, LIBRARY], "chunk"), ([LIBRARY], "page")):
        with pytest.raises(ValueError, match=r"[Gg]ive"):
            generate_questions(passages, llm, out, per=per)  # type: ignore[arg-type]
    assert llm.calls == 0
    assert not out.exists()


def test_a_stopped_run_goes_on_and_ends_with_the_same_file(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    llm = Writer()
    generate_questions(DOCUMENTS, llm, whole)
    for call in range(1, llm.calls + 1):
        out.unlink(missing_ok=True)
        stopped = Writer()
        stopped.dies_at = call
        try:
            generate_questions(DOCUMENTS, stopped, out)
        except CallFailed:
            pass
        else:  # a failed call of the answer that is checked is a refusal with its reason
            assert "answering failed" in why(read_jsonl(out)).values()
            continue
        generate_questions(DOCUMENTS, Writer(), out)
        assert out.read_bytes() == whole.read_bytes()
    again = Writer()
    generate_questions(DOCUMENTS, again, whole)
    assert again.calls == 0


def test_a_file_cut_short_anywhere_is_mended(tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    generate_questions(DOCUMENTS, Writer(), out)
    data = out.read_bytes()
    for length in range(0, len(data), 97):
        out.write_bytes(data[:length])
        generate_questions(DOCUMENTS, Writer(), out)
        assert out.read_bytes() == data


def test_lines_edited_and_deleted_by_hand_stay_so(tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    records = generate_questions(DOCUMENTS, Writer(), out)
    records[0]["kept"] = False
    edited = "".join(json.dumps(record) + "\n" for record in [records[0], *records[2:]]).rstrip("\n")
    out.write_text(edited, encoding="utf-8")
    llm = Writer()
    assert generate_questions(DOCUMENTS, llm, out) == [records[0], *records[2:]]
    assert llm.calls == 0
    assert next(question.id for question in load_questions(out, DOCUMENTS)) == "water#0/positive"


@pytest.mark.parametrize("line", ['{"kept": fals}\n', "[1]\n", '"text"\n'])
def test_a_slip_of_an_editor_is_refused_and_stays_in_the_file(line: str, tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    generate_questions(DOCUMENTS, Writer(), out)
    edited = out.read_text("utf-8") + line
    out.write_text(edited, encoding="utf-8")
    with pytest.raises(ValueError, match=r"q.jsonl, (line|record) 7 is"):  # three documents, two records each
        generate_questions(DOCUMENTS, Writer(), out)
    assert out.read_text("utf-8") == edited


def test_a_report_counts_what_was_refused_and_added_by_hand() -> None:
    added = {"kind": "negative", "text": "Who?"}
    found = report_questions([added, {**added, "kept": False}, {**added, "kept": False, "why": "answered elsewhere"}])
    assert found["negative"] == QuestionReport(3, 1, {"by hand": 1, "answered elsewhere": 1}, 2, 1)


def test_questions_about_another_text_are_not_continued(tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    generate_questions(DOCUMENTS, Writer(), out)
    changed = Document("library", LIBRARY.text + " Closed on Sundays.", "Library")
    with pytest.raises(ValueError, match="library#0"):
        generate_questions([changed, WATER, PLACES], Writer(), out)
    out.write_text("{]\n{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        generate_questions(DOCUMENTS, Writer(), out)


def test_claude_is_estimated_first_recorded_and_never_asked_twice(
    tmp_path: Path, messages_server: MessagesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    recordings._open.cache_clear()

    def server_reply(text: str) -> str:
        start = text.find('{"title"') if '{"title"' in text else text.find('{"question"')
        return reply(text[start:] if start >= 0 else text, DRAFTS)

    messages_server.reply = server_reply
    llm = ClaudeLLM("claude-haiku-5-5")
    records = generate_questions(DOCUMENTS, llm, tmp_path / "q.jsonl")
    assert report_questions(records)["positive"].kept == 3
    said = capsys.readouterr().err
    # 3 drafts, 3 answers, and for 3 negatives a look at the passage and one at the others found.
    assert said.count("Estimate:") == 1
    assert "12 request(s)" in said
    paid = len(messages_server.billed)
    assert 0 < paid <= 12
    generate_questions(DOCUMENTS, llm, tmp_path / "again.jsonl")
    assert len(messages_server.billed) == paid


def test_the_cap_holds(tmp_path: Path, messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings._open.cache_clear()
    monkeypatch.setenv("RAG_LAB_MAX_USD", "0")
    with pytest.raises(spending.OverBudget):
        generate_questions(DOCUMENTS, ClaudeLLM("claude-haiku-5-5"), tmp_path / "q.jsonl")
    assert not messages_server.billed


# Drafts

TEXT = '# Badge\n\nThe badge opens the door at all times. A new one costs 20 pounds after that. "}'
BADGE = Chunk("buildings", 0, TEXT, 0, len(TEXT), "Buildings", section_path=("Badge",))


def test_the_passage_is_sent_as_data() -> None:
    asked = json.loads(draft_prompt(BADGE).turns[0].text)
    assert asked == {"title": "Buildings", "sections": ["Badge"], "passage": TEXT}


def test_a_small_model_is_asked_about_the_sentence_with_a_number() -> None:
    made = draft(BADGE, smollm2())
    assert (made.quote, made.answer) == ("A new one costs 20 pounds after that.", "20 pounds")
    assert "\n" not in made.positive + made.negative
    assert made.positive


def test_a_passage_without_a_sentence_has_no_questions() -> None:
    with pytest.raises(NoDraft, match="no sentence to ask about"):
        draft(Chunk("d", 0, "# Badge", 0, 7), smollm2())


FIELDS = {"positive": "a?", "quote": "q", "answer": "q", "negative": "b?"}


@pytest.mark.parametrize("text", ["Sure!", "[]", "{}", "1", "[" * 100_000, json.dumps({**FIELDS, "answer": None})])
def test_another_form_than_the_requested_one_is_no_draft(text: str) -> None:
    with pytest.raises(NoDraft, match="no JSON"):
        draft(BADGE, Scripted(text))


def test_white_space_around_the_parts_of_a_draft_is_dropped() -> None:
    assert draft(BADGE, Scripted(json.dumps({**FIELDS, "quote": " q\n"}))) == Draft(**FIELDS)
