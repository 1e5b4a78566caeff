import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.text.answer_matching import best_subspan_em, contains_answer, first_line, mentions_answer, normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # By hand from SQuAD's four steps: lower case, no punctuation, no articles, single spaces.
        ("The  Beatles' song, “A Day in the Life”!", "beatles song day in life"),
        ("U.S.A.", "usa"),
        ("anthem", "anthem"),
        ("1,905 (in 1999)", "1905 in 1999"),
        ("STRASSE Straße", "strasse strasse"),
        ("Ｆｕｌｌｗｉｄｔｈ １２", "fullwidth 12"),
        ("«Москва», — сказал он.", "москва сказал он"),
        ("ירושלים, בירת ישראל.", "ירושלים בירת ישראל"),
        ("北京、上海。", "北京上海"),
        ("Röntgen", "röntgen"),
    ],
)
def test_normalised_text(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("answer", "accepted", "score"),
    [
        ("It was won by Wilhelm Conrad Röntgen, in 1901.", ["Wilhelm Conrad Röntgen"], 1.0),
        ("It was won by Wilhelm Conrad Rontgen.", ["Wilhelm Conrad Röntgen"], 0.0),  # accents count, as in the paper
        ("the BEATLES", ["The Beatles"], 1.0),
        ("May 18 2018", ["May 18, 2018"], 1.0),
        ("Something else\nMay 18, 2018", ["May 18, 2018"], 0.0),  # only the first line is judged
        ("\nMay 18, 2018", ["May 18, 2018"], 0.0),
        ("no idea", ["Paris", "an idea"], 1.0),  # any accepted answer; its article goes
        ("پایتخت ایران تهران است.", ["تهران"], 1.0),
        ("Столица — МОСКВА!", ["москва"], 1.0),
        ("בירת ישראל היא ירושלים", ["ירושלים"], 1.0),
        ("首都是北京。", ["北京"], 1.0),
        ("the party 🎉 began", ["🎉"], 1.0),
        ("cafe\u0301", ["caf\u00e9"], 1.0),  # combining or composed
        ("nothing", ["The"], 0.0),  # normalised it is empty, and must not be found everywhere
        ("The", ["The"], 1.0),
        ("", ["x"], 0.0),
    ],
)
def test_best_subspan(answer: str, accepted: list[str], score: float) -> None:
    assert best_subspan_em(answer, accepted) == score


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Wilhelm Conrad Rontgen was there.", "Wilhelm Conrad Röntgen", True),  # accents
        ("the beatles came", "Beatles", True),  # case, articles
        ("It holds 1905 seats.", "1,905", True),
        ("It holds 1,905 seats.", "1905", True),
        ("There were fourteen of them.", "14", True),  # numbers in words
        ("There were 14 of them.", "fourteen", True),
        ("۱۴ نفر", "14", True),  # digits of another script
        ("Ёлка", "елка", True),
        ("split over\ntwo lines", "over two", True),
        # Letters that no decomposition makes one, and what a reader does not see: strokes, ligatures, Persian's
        # joiner, a soft hyphen, a direction mark, Arabic's stretching stroke, two keyboards' yeh.
        ("They met in Tromso.", "Tromsø", True),
        ("They met in Łódź.", "Lodz", True),
        ("The Encyclopaedia Britannica", "Encyclopædia Britannica", True),
        ("این کتاب خانه است", "کتاب\u200cخانه", True),
        ("We saw Ber\u00adlin.", "Berlin", True),
        ("ב\u200fתל אביב", "תל אביב", True),
        ("شهر تهـــران است", "تهران", True),
        ("سيد علي", "سید علی", True),
        # A number inside a longer answer, in words or in digits.
        ("He wrote The Thirty-Nine Steps.", "39 Steps", True),
        ("He wrote The 39 Steps.", "The Thirty-Nine Steps", True),
        ("It took twenty-four people.", "24 people", True),
        ("2,000,000 fans came", "two million fans", True),
        ("It took twenty-five people.", "24 people", False),
        ("He wrote The 38 Steps.", "The Thirty-Nine Steps", False),
        ("There were 15 of them.", "14", False),
        ("Nothing of the kind.", "Beatles", False),
    ],
)
def test_mentions_in_any_spelling(text: str, answer: str, expected: bool) -> None:
    assert mentions_answer(text, [answer]) is expected


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=10), st.text(max_size=30))
def test_an_answer_in_a_text_is_found_and_kept_from_distractors(before: str, answer: str, after: str) -> None:
    text = f"{before} {answer} {after}"
    assert normalise(normalise(text)) == normalise(text)
    if normalise(answer):
        if best_subspan_em(text, [answer]) == 1.0:
            assert mentions_answer(text, [answer])
        assert first_line(text) == text.split("\n")[0].strip()


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("You get 28 days.", "28 days"),
        ("You get twenty-eight days a year.", "28 days"),
        ("It is 28 DAYS, every year", "28 days"),
        ("up to 1000 euros", "1,000 euros"),
        ("up to ۱۰۰۰", "1,000"),
        ("up to €1,000", "1000 euros"),
        ("on 9 May 2024", "May 9, 2024"),
        ("at 1 pm", "13:00"),
        ("It is the Room 3b.", "room 3B"),
        ("No, they are not.", "no"),
        ("call +44 20 7946 0317 now", "020 7946 0317"),
        ("共28天。", "28天"),
        ("共二十八天", "28天"),
        ("הוא גר בברלין", "ברלין"),
        ("Он живёт в Москве.", "в москве"),
        ("so lange es dauert, im Café", "café"),
        ("It has grade A.", "A"),  # nothing is left of it without articles
        ("Write + there.", "+"),
        ("down to −5", "-5"),
        ("for 5-7 days", "7 days"),
    ],
)
def test_accepted_answers_are_contained(text: str, accepted: str) -> None:
    assert contains_answer(text, ["something else", accepted])


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("I know it.", "no"),
        ("1284", "28"),
        ("15 days", "1.5"),
        ("28.5", "28"),
        ("28 weeks", "28 days"),
        ("29 days", "28 days"),
        ("28 boxes", "28 working days"),
        ("12:30", "12"),
        ("It is a B.", "A"),
        ("It is an AB.", "A"),
        ("-5", "5"),
        ("It is 5", "−5"),
        ("", "28 days"),
        ("a day", "the"),
        ("call 020 7946 0318", "020 7946 0317"),
    ],
)
def test_other_answers_are_not_contained(text: str, accepted: str) -> None:
    assert not contains_answer(text, [accepted])


@given(st.text(min_size=1, max_size=30), st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_an_answer_stands_in_itself_between_spaces(accepted: str, around: str) -> None:
    if normalise(accepted):
        assert contains_answer(f"{around} {accepted} {around}", [accepted])


def test_no_accepted_answers_are_an_error() -> None:
    with pytest.raises(ValueError, match="no accepted answer"):
        best_subspan_em("anything", [])
    for bad in ([], ["28", " "], "28"):  # the letters of a bare string are no answers
        with pytest.raises(ValueError, match="accepted answers"):
            contains_answer("28", bad)


@pytest.mark.parametrize(
    ("text", "answer", "contained"),
    [
        ("Give .5 mg once a day.", "5 mg", False),
        ("Give .5 mg once a day.", "0.5 mg", True),
        ("The rent is 1 500 euros.", "500 euros", False),
        ("The rent is 1\u202f500 euros.", "500 euros", False),
        ("The rent is 1’500 francs.", "500 francs", False),
        ("The rent is 1 500 euros.", "1500 euros", True),
        ("It falls to −5 degrees.", "5 degrees", False),
        ("About 10² cells.", "102 cells", False),
        ("About 10² cells.", "100 cells", True),
        ("It takes 1½ hours.", "2 hours", False),
        ("It takes 1½ hours.", "1.5 hours", True),
    ],
)
def test_no_answer_inside_a_number(text: str, answer: str, contained: bool) -> None:
    assert contains_answer(text, [answer]) == contained
