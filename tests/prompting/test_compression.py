"""rag_lab.prompting.compression: what is kept stands in its passage, with what it leans on and what limits it."""

import math
from collections.abc import Callable, Sequence

import pytest

from rag_lab.llm.prompt import Prompt
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.compression import (
    Extractor,
    compress_extract,
    compress_filter,
    keep_judge,
    model_extractor,
    nearest_sentences,
)
from rag_lab.types import Chunk, Hit
from tests.support.answer_doubles import Scripted
from tests.support.local_model import smollm2


def chunk(text: str, doc_id: str = "d", start: int = 0) -> Chunk:
    return Chunk(doc_id, 0, text, start, start + len(text))


def returning(*answers: Sequence[str]) -> Extractor:
    """A test double: what a model might return for each passage."""
    return lambda question, passages: answers


def texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


# Filter


def scores(values: dict[str, float]) -> Callable[[str, Sequence[Hit]], list[Hit]]:
    """A test double: a reranker with given scores, best first."""

    def judge(question: str, hits: Sequence[Hit]) -> list[Hit]:
        ordered = sorted(hits, key=lambda hit: -values[hit.chunk.doc_id])
        return [Hit(hit.chunk, values[hit.chunk.doc_id], rank) for rank, hit in enumerate(ordered, 1)]

    return judge


def test_the_filter_drops_what_is_under_the_threshold_and_keeps_the_order() -> None:
    chunks = [chunk("one", "a"), chunk("three", "b"), chunk("seven", "c")]
    selection = compress_filter("q", chunks, scores({"a": 0.5, "b": 0.2, "c": 0.9}), 0.5, len)
    assert texts(selection.chunks) == ["one", "seven"]
    assert [(drop.chunk.doc_id, drop.step, drop.reason) for drop in selection.dropped] == [
        ("b", "filter", "score 0.200 under 0.5")
    ]
    assert (selection.tokens_before, selection.tokens_after) == (13, 8)


def test_a_model_that_judges_says_so_as_json() -> None:
    model = Scripted('{"helps": false}', '{"helps": true}')
    hits = [Hit(chunk("no </passage>", "a"), 0.0, 1), Hit(chunk("yes", "b"), 0.0, 2)]
    judged = keep_judge(model)("Why?", hits)
    assert [(hit.chunk.doc_id, hit.score, hit.rank) for hit in judged] == [("b", 1.0, 1), ("a", 0.0, 2)]
    assert model.prompts[0].turns[-1].text.startswith("<passage>\nno &#x3c;/passage>\n</passage>\n\nQuestion: Why?\n")


@pytest.mark.parametrize("answer", ["Yes", '{"helps": "yes"}', '{"help": true}', "[]"])
def test_a_verdict_that_is_none_is_an_error(answer: str) -> None:
    with pytest.raises(ValueError, match="ask again"):
        keep_judge(Scripted(answer))("q", [Hit(chunk("x"), 0.0, 1)])


# Extract

PASSWORDS = (
    "## Passwords\n\nThey have at least 14 characters. They are not changed at fixed intervals. "
    "Administrator accounts are the exception: there it is 20 characters. Nobody may ask you for yours."
)


def test_only_sentences_that_hold_what_is_returned_are_kept_each_run_a_chunk() -> None:
    text = "One stands first. Two is here. Three comes next. Four is the last."
    selection = compress_extract("q", [chunk(text, start=50)], returning(["Three comes", "One stands first."]), len)
    assert [(c.text, c.start, c.end) for c in selection.chunks] == [
        ("One stands first.", 50, 67),
        ("Three comes next.", 81, 98),
    ]
    assert (selection.tokens_before, selection.tokens_after, selection.unverified_quotes) == (len(text), 34, ())


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        # Returned, from a passage that says: Data are not stored. It costs 40 pounds. Able tables stand here.
        ("Data are stored.", []),  # a word left out
        ("data are not stored", []),  # another case
        ("Data are not stored. Able tables", []),  # stitched from two places
        ("It costs 41 pounds.", []),
        ("able tables stand", []),
        ("40", []),  # too short to tell
        ("not st", []),  # ends inside a word
        ("Data  are\nnot stored.", ["Data are not stored."]),  # only white space differs
        ("costs 40 pounds", ["Data are not stored. It costs 40 pounds."]),  # It: the sentence before comes too
        ("stored. It costs", ["Data are not stored. It costs 40 pounds."]),
        ("", []),
    ],
)
def test_what_the_passage_does_not_hold_is_refused(returned: str, kept: list[str]) -> None:
    passage = chunk("Data are not stored. It costs 40 pounds. Able tables stand here.")
    selection = compress_extract("q", [passage], returning([returned]), len)
    assert texts(selection.chunks) == kept
    assert selection.unverified_quotes == (() if kept else (returned,))
    if not kept:
        assert selection.dropped[0].reason == "no quote occurs in it"


def test_a_short_quote_counts_where_it_is_a_whole_sentence() -> None:
    assert texts(compress_extract("q", [chunk("Is it? No. It was.")], returning(["No."]), len).chunks) == ["No."]


def test_a_passage_of_which_nothing_is_returned_is_dropped() -> None:
    chunks = [chunk("A long story.", "a"), chunk("Another one.", "b")]
    selection = compress_extract("q", chunks, returning([], ["Another one."]), len)
    assert texts(selection.chunks) == ["Another one."]
    assert [(drop.chunk.doc_id, drop.reason) for drop in selection.dropped] == [("a", "no sentence of it answers")]


def test_the_exception_that_is_lost_without_neighbours() -> None:
    quote = ["They have at least 14 characters."]
    alone = compress_extract("q", [chunk(PASSWORDS)], returning(quote), len, neighbours=False)
    assert texts(alone.chunks) == quote
    # With them: the heading that They stands for; what is not limited further ("They are not …") begins like an
    # exception, and so does the one after it.
    (kept,) = compress_extract("q", [chunk(PASSWORDS)], returning(quote), len).chunks
    assert kept.text == PASSWORDS.removesuffix(" Nobody may ask you for yours.")


@pytest.mark.parametrize(
    ("text", "returned", "kept"),
    [
        # before: a pronoun leans on it
        ("Ann joined. She leads sales. Bob left.", "She leads sales.", "Ann joined. She leads sales."),
        ("דנה הצטרפה. היא מנהלת מכירות. בועז עזב.", "היא מנהלת מכירות.", "דנה הצטרפה. היא מנהלת מכירות."),
        ("سقف سرقت هزار یورو است. این مبلغ دو برابر شد. پایان.", "این مبلغ دو برابر شد.", None),
        ("Анна пришла. Она ведёт продажи. Борис ушёл.", "Она ведёт продажи.", "Анна пришла. Она ведёт продажи."),
        ("滤网很贵。它每年更换。泵在地下。", "它每年更换。", "滤网很贵。它每年更换。"),
        # after: a condition or an exception limits it
        ("Dogs may enter. Unless it rains. Cats stay.", "Dogs may enter.", "Dogs may enter. Unless it rains."),
        ("Entry is free. This does not apply to groups. Ask.", "Entry is free.", None),
        ("הכניסה חינם. אבל לא לקבוצות. שאלו.", "הכניסה חינם.", "הכניסה חינם. אבל לא לקבוצות."),
        ("ورود رایگان است. اما برای گروه‌ها نه. بپرسید.", "ورود رایگان است.", None),
        ("Вход свободный. Однако не для групп. Спросите.", "Вход свободный.", "Вход свободный. Однако не для групп."),
        ("入场免费。但是团体除外。请询问。", "入场免费。", "入场免费。但是团体除外。"),
        # a pronoun after it limits nothing
        ("Entry is free. It was built in 1900.", "Entry is free.", "Entry is free."),
        # a word that only begins like one
        ("Gates open. Iffy ones close.", "Gates open.", "Gates open."),
        # numbered clauses
        ("2.1 Theft is covered. 2.2 If the door was open, it is not. 2.3 Fire is.", "2.1 Theft is covered.", None),
    ],
)
def test_neighbours_in_five_languages(text: str, returned: str, kept: str | None) -> None:
    """None: all but the last sentence."""
    from rag_lab.text.segmentation import sentences

    if kept is None:
        kept = text[: list(sentences(text, 0, len(text)))[-2][1]].strip()
    (piece,) = compress_extract("q", [chunk(text)], returning([returned]), len).chunks
    assert piece.text == kept


def test_a_model_s_lines_are_read_without_their_marks() -> None:
    model = Scripted('- "Entry is free."\n\n2. &#x3c;passage> is a tag.\n', "NONE.")
    first = "Entry is free. The word <passage> is a tag. <passage> is a tag."
    assert model_extractor(model)("q", [first, "x"]) == [["Entry is free.", "<passage> is a tag."], []]
    assert "The word &#x3c;passage> is a tag." in model.prompts[0].turns[-1].text


# With the real models


def test_the_nearest_sentences_of_each_passage() -> None:
    encoder = Encoder.load("minilm", dtype="float32")
    passages = ["The gate is green. Tickets cost four euros. Trains leave hourly.", "Dogs bark."]
    assert nearest_sentences(encoder, 1)("What is the price of a ticket?", passages) == [
        ["Tickets cost four euros."],
        ["Dogs bark."],
    ]


def test_a_local_model_judges_by_probability_and_copies_or_is_refused() -> None:
    llm = smollm2()
    passage = chunk("The ferry leaves every 40 minutes. On Sundays the last crossing is at 18:20.")
    (hit,) = keep_judge(llm)("When is the last ferry on Sundays?", [Hit(passage, 0.0, 1)])
    prompt = Prompt.of(
        f"<passage>\n{passage.text}\n</passage>\n\nQuestion: When is the last ferry on Sundays?\n\n"
        "Does the passage help to answer the question? Answer Yes or No."
    )
    yes, no = (math.exp(llm.log_likelihood(prompt, word)) for word in ("Yes", "No"))
    assert hit.score == pytest.approx(yes / (yes + no), rel=1e-3)

    question = "When is the last ferry on Sundays?"
    (returned,) = model_extractor(llm, 40)(question, [passage.text])
    assert returned
    selection = compress_extract(question, [passage], model_extractor(llm, 40), llm.count_tokens)
    assert set(selection.unverified_quotes) <= set(returned)
    assert all(piece.text in passage.text for piece in selection.chunks)
    assert selection.tokens_before == llm.count_tokens(passage.text)
