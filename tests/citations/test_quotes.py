"""Quotes and their ranges. Every expected range is the text between ‹ and › of the hand-marked passage."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.citations.quotes import MAX_GAP, QuoteCheck, check_quotes, ground_quote, too_short
from tests.support.cited_sources import sources


def marked(passage: str) -> tuple[str, tuple[int, int]]:
    """The passage without its marks, and the range between them."""
    start, end = passage.index("‹"), passage.index("›") - 1
    return passage.replace("‹", "").replace("›", ""), (start, end)


@pytest.mark.parametrize(
    ("quote", "passage"),
    [
        ("Dogs are allowed on Fridays", "Since May, ‹Dogs are allowed on Fridays›."),
        ("כלבים מותרים בימי שישי", "מאז מאי ‹כלבים מותרים בימי שישי›."),
        ("سگ‌ها جمعه‌ها مجاز هستند", "از مه ‹سگ‌ها جمعه‌ها مجاز هستند›."),
        ("собаки разрешены по пятницам", "С мая ‹собаки разрешены по пятницам›."),
        ("星期五允许带狗", "从五月起，‹星期五允许带狗›。"),
        ("👩‍👩‍👧 family plan covers", "The ‹👩‍👩‍👧 family plan covers› all."),
        # white space
        ("Dogs  are\nallowed here", "‹Dogs are\u00a0\u2003allowed\r\n here›."),
        ("  Dogs are allowed ", "x ‹Dogs are allowed› x"),
        ("违反者将收到书面警告", "‹违反者\n  将收到书面警告›。"),
        ("违反者 将收到，书面警告", "‹违反者将收到，\n书面警告›。"),
        # compatibility forms, and canonical ones in another order
        ("the final office plan", "See ‹the ﬁnal oﬃce ｐlan›."),
        ("a caf\u00e9 au lait", "‹a cafe\u0301 au lait›"),
        ("שָּׁם יש כלבים", unicodedata.normalize("NFD", "‹שָּׁם יש כלבים›")),
        ("سلام بر همه شما", "‹ﺳﻼﻡ بر همه شما›"),
        ("全角ＡＢＣ也算一样", "‹全角ABC也算一样›"),
        # quotation marks and dashes
        ('the staff\'s "own" dogs', "‹the staff’s “own” dogs›"),
        ("“Dogs are allowed”", 'It says "‹Dogs are allowed›".'),
        ("«Собаки в офисе разрешены»", "‹Собаки в офисе разрешены›"),
        ("מע״מ כלול במחיר", '‹מע"מ כלול במחיר›'),
        ("9-17 on all weekdays", "open ‹9–17 on all weekdays›"),
        ("well-known house rules — really", "‹well‑known house rules – really›"),
        # soft hyphens, hyphenation at line ends, and a hyphen of the word's own there
        ("information on holidays here", "‹infor\u00admation on holi\u00ad\ndays here›"),
        ("long-term plan information", "our ‹long-\nterm plan informa-\n  tion› is"),
        ("die Kranken- und Pflegekasse", "‹die Kranken- und Pflegekasse›"),
        ("информация о договоре здесь", "‹инфор-\nмация о договоре здесь›"),
        # invisible characters
        ("כלבים מותרים במשרד", "‹כלבים \u200fמותרים\u200e במשרד›"),
        ("可以带狗上班吗", "‹可以\u200b带狗上班吗›"),
        # ellipses
        ("Staff may work … up to ten days", "‹Staff may work abroad, if asked, for up to ten days›."),
        ("Staff may work [...] up to ten days ...", "‹Staff may work abroad for up to ten days› a year."),
        ("Staff may work <...> up to (…) ten days", "‹Staff may work abroad for up to and over ten days›."),
        ("员工可以带狗……但须先登记", "‹员工可以带狗上班，但须先登记›。"),
        ("Well… that is it", "‹Well... that is it›."),  # the text's own ellipsis
    ],
)
def test_a_quote_is_found_exactly(quote: str, passage: str) -> None:
    text, span = marked(passage)
    assert ground_quote(quote, text) == span


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("Dogs can come on Fridays", "Dogs are allowed on Fridays."),  # paraphrase
        ("Dogs are permitted on Fridays", "Dogs are allowed on Fridays."),
        ("מותר להביא כלבים בשישי", "כלבים מותרים בימי שישי."),
        ("星期五可以带狗", "星期五允许带狗。"),
        ("dogs are allowed here", "Dogs are allowed here."),  # case
        ("20 days of holiday", "２０ days of holiday"),  # digits
        ("20 روز مرخصی در سال", "۲۰ روز مرخصی در سال"),
        ("102 units of it", "10² units of it"),
        ("a half of it all", "½ of it all"),
        ("20 days of holiday", "120 days of holiday"),  # part of a number
        ("5 days of holiday", "2.5 days of holiday"),
        ("holidays are 20", "holidays are 20.5"),
        ("at the latest 14", "at the latest 14:30"),
        ("休假二十天另加5", "休假二十天另加55天"),
        ("refundable fee of ten", "a non-refundable fee of ten"),  # part of a word
        ("refundable fee of ten", "a non-\nrefundable fee of ten"),
        ("able to bring dogs", "unable to bring dogs"),
        ("you said that you can", "you said that you can't"),
        ("можно приводить собак", "невозможно приводить собак"),
        ("می‌شود سگ آورد اینجا", "نمی‌شود سگ آورد اینجا"),  # the prefix negates
        ("see the cafe", "see the cafe\u0301"),  # part of a character
        ("longterm plan information", "long-term plan information"),  # a hyphen is not white space
        ("long-term plan information", "longterm plan information"),
        ("Dogs are allowed. Cats are not.", "Dogs are allowed. Birds are not. Cats are not."),  # words left out
        ("up to ten days … Staff may work", "Staff may work abroad for up to ten days."),  # out of order
        ("Staff may work … Staff may work", "Staff may work abroad."),  # one place for two parts
        ("", "Dogs are allowed."),
        ("Dogs are allowed", ""),
    ],
)
def test_a_quote_that_is_not_in_the_text_is_not_found(quote: str, text: str) -> None:
    assert ground_quote(quote, text) is None


def test_the_parts_of_a_quote_must_be_near_each_other() -> None:
    quote = "Staff may work … ten days"
    near, far = (f"Staff may work{' ' * 10}{'x' * (MAX_GAP - n)} ten days." for n in (11, 10))
    assert ground_quote(quote, near) == (0, len(near) - 1)
    assert ground_quote(quote, far) is None
    # The nearest earlier part counts, not the first.
    assert ground_quote(quote, far + " " + near) == (len(far) + 1, len(far) + len(near))


def test_the_first_of_several_places_is_taken() -> None:
    text = "120 days of holiday, 20 days of holiday, 20 days of holiday"
    assert ground_quote("20 days of holiday", text) == (21, 39)
    assert ground_quote("20 20 20", "120 20 20 20 20") == (4, 12)  # overlapping


def test_a_quote_stitched_from_two_sources_is_in_neither() -> None:
    given = sources("Dogs are allowed on Fridays.", "Cats must stay at home.")
    for quote in ("Dogs are allowed on Fridays. Cats must stay at home.", "Dogs are allowed … must stay at home"):
        assert [check.status for check in check_quotes([("S1", quote), ("S2", quote)], given)] == ["not_found"] * 2


@pytest.mark.parametrize(
    "quote",
    [
        "",
        "…",
        "Dogs",
        "20 days",
        "“annual leave”",
        "允许带狗",
        "ימי חופשה",
        "two … parts",
        "the … only … one",
        ". , !",
    ],
)
def test_a_short_quote_proves_nothing(quote: str) -> None:
    assert too_short(quote)
    text = f"the two parts {quote.replace('…', '')} only one"
    assert ground_quote(quote, text) is None
    assert check_quotes([("S1", quote)], sources(text)) == [QuoteCheck("S1", quote, "too_short")]


@pytest.mark.parametrize("quote", ["20 vacation days", "允许员工带狗", "не более двадцати дней", "the two … of them"])
def test_three_words_are_enough(quote: str) -> None:
    assert not too_short(quote)


def test_quotes_are_checked_against_the_source_they_name() -> None:
    given = sources("Dogs are allowed on Fridays.", "Cats must stay at home.")
    quotes = [("S2", "Cats must stay"), ("S1", "Cats must stay"), ("S9", "Cats must stay"), ("S1", "Dogs")]
    assert check_quotes(quotes, given) == [
        QuoteCheck("S2", "Cats must stay", "found", (0, 14)),
        QuoteCheck("S1", "Cats must stay", "not_found"),
        QuoteCheck("S9", "Cats must stay", "no_such_source"),
        QuoteCheck("S1", "Dogs", "too_short"),
    ]


def test_more_than_ten_parts_are_not_found() -> None:
    parts = [f"word{i} stays" for i in range(11)]
    text = " ".join(parts)
    assert ground_quote(" … ".join(parts[:10]), text) is not None
    assert ground_quote(" … ".join(parts), text) is None


def loosely(text: str) -> str:
    """Another, coarser folding: two texts that the module finds equal are equal here too."""
    text = re.sub("[‐‑‒–—-]", "", text)
    text = re.sub("[‘’'“”\"«»]", "'", text)
    kept = [c for c in text if unicodedata.category(c) != "Cf" and not c.isspace()]
    return "".join(c if c.isnumeric() else unicodedata.normalize("NFKD", c) for c in kept)


LETTERS = "a b A 1 9 . , - – ’ “ … \u00ad \u200c ﬁ ² é e\u0301 ש שׁ می 狗 😀"
ALPHABET = st.sampled_from([*LETTERS.split(), "\n", " "])
SOME_WORDS = "ab a b 20 2.5 狗 允许 ש כלב سگ no- \u00ad a-b ﬁ é e\u0301 … . ,"
WORDS = st.sampled_from(SOME_WORDS.split())


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=12).map(" ".join), st.lists(ALPHABET, max_size=6).map("".join), st.data())
def test_a_range_that_is_returned_matches(text: str, other: str, data: st.DataObject) -> None:
    """Quotes cut from the text and changed, so that many are found and many nearly."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    at = data.draw(st.integers(start, end))
    quote = text[start:at] + data.draw(st.sampled_from(["", other])) + text[at:end]
    span = ground_quote(quote, text)
    if span is None:
        return
    found = text[slice(*span)]
    parts = [loosely(part) for part in re.split(r"…|\.\.\.+", quote)]
    rest = loosely(found)
    for part in filter(None, (part.strip("'") for part in parts)):
        assert part in rest, (quote, found)
        rest = rest[rest.index(part) + len(part) :]


@settings(max_examples=200, deadline=None)
@given(st.lists(ALPHABET, max_size=40).map("".join), st.data())
def test_whole_words_quoted_verbatim_are_found(text: str, data: st.DataObject) -> None:
    edges = [0, *(edge for match in re.finditer(r"\s", text) for edge in match.span()), len(text)]
    start, end = sorted(data.draw(st.tuples(st.sampled_from(edges), st.sampled_from(edges))))
    quote = text[start:end]
    if not too_short(quote):
        assert ground_quote(quote, text) is not None


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("a " * 5_000 + "b", "a " * 100_000),
        ("a " * 5_000, "a " * 100_000 + "b"),
        ("x y … " * 9 + "z q", "x y " * 50_000),
        ("the word here", "the word here-" * 20_000),
        ("…" * 100_000, "…" * 100_000),
        ("a" + "\u0301" * 100_000 + " b c", "a" + "\u0301\u0323" * 100_000 + " b c"),
        ("a b c", "a-\n" * 100_000),
    ],
)
def test_hostile_quotes_take_linear_time(quote: str, text: str) -> None:
    """A search that starts again at every character would compare 10^9 of them."""
    assert ground_quote(quote, text) in (None, (0, len("a " * 5_000) - 1))
