"""Ranking, main effects and the best on held-out questions, on rows worked out by hand; and the HTML page."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from rag_lab.metrics import answer_scores
from rag_lab.results import interval_fields
from rag_lab.sweeps import analysis, report
from rag_lab.sweeps.analysis import scores, swept

SHORT = {"+": "correct", "0": "unanswered", "w": "wrong", "-": "false_answer", "r": "right_refusal", "E": "error"}


def row(number: int, outcomes: str, **settings: Any) -> dict[str, Any]:
    """A row as ``run_sweep`` makes it; ``outcomes`` are letters of ``SHORT``, the positives' first."""
    named = [SHORT[letter] for letter in outcomes]
    scored = answer_scores(named)
    ids = [f"q{i}" for i in range(len(named))]
    return {
        "number": number,
        "key": str(number),
        "name": "test",
        "configuration": {"chunking.strategy": "raw", "retrieval.top_k": 5} | settings,
        "total": scored.total,
        "mean": interval_fields(scored.mean) if scored.mean else None,
        "counts": scored.counts,
        "outcomes": dict(zip(ids, named, strict=True)),
        "answerable": [id_ for id_, letter in zip(ids, outcomes, strict=True) if letter in "+0w"],
        "diagnosis": {"right": 1},
        "details": {"right": 1},
        "prompt_tokens": 0,
        "output_tokens": 0,
        "dollars": 0.0,
    }


GRID = [
    row(1, "++++rrrr", **{"chunking.strategy": "raw", "retrieval.top_k": 1}),
    row(2, "++00rrrr", **{"chunking.strategy": "raw", "retrieval.top_k": 5}),
    row(3, "++++rr--", **{"chunking.strategy": "by_words", "retrieval.top_k": 1}),
    row(4, "0000----", **{"chunking.strategy": "by_words", "retrieval.top_k": 5}),
]


def test_ranked_by_mean_then_number_and_unscored_rows_last() -> None:
    rows = [row(1, "EE"), row(2, "0r"), row(3, "+r"), row(4, "+r")]
    assert [r["number"] for r in analysis.ranked(rows)] == [3, 4, 2, 1]


def test_scores_leave_errors_out() -> None:
    table = scores([row(1, "+0w-rE")])
    assert table[0, :5].tolist() == [1, 0, 0, -1, 0]
    assert table[0, 5] != table[0, 5]


def test_main_effects_by_hand() -> None:
    # Totals over 8 questions are 4, 2, 2 and -4. raw has (4 + 2) / 2 = 3, by_words (2 - 4) / 2 = -1: 4 / 8 = 0.5.
    # k = 1 has (4 + 2) / 2 = 3, k = 5 has (2 - 4) / 2 = -1, so 0.5 too.
    effects = {(e.key, e.value): e for e in analysis.main_effects(GRID)}
    assert list(effects) == [
        ("chunking.strategy", "raw"),
        ("chunking.strategy", "by_words"),
        ("retrieval.top_k", 1),
        ("retrieval.top_k", 5),
    ]
    assert effects["chunking.strategy", "raw"].difference.value == pytest.approx(0.5)
    assert effects["chunking.strategy", "by_words"].difference.value == pytest.approx(-0.5)
    assert effects["retrieval.top_k", 1].difference.value == pytest.approx(0.5)
    assert effects["retrieval.top_k", 1].configurations == 2
    assert effects["retrieval.top_k", 1].difference.n == 8


def test_an_effect_leaves_out_a_question_on_which_a_whole_side_failed() -> None:
    rows = [row(1, "+E+0", **{"retrieval.top_k": 1}), row(2, "0+00", **{"retrieval.top_k": 2})]
    first = analysis.main_effects(rows)[0]
    # Left are questions 0, 2 and 3: differences 1, 1 and 0.
    assert (first.difference.value, first.difference.n) == (pytest.approx(2 / 3), 3)


def test_the_best_is_chosen_on_one_half_and_reported_on_the_other() -> None:
    best = analysis.best_on_heldout(GRID)
    assert best.row["number"] == 1  # it has the highest score on every question, so whatever the half
    # Each half has two of the four positives, all answered, and two of the four negatives, all refused.
    assert (best.chosen.value, best.chosen.n) == (0.5, 4)
    assert (best.reported.value, best.reported.n) == (0.5, 4)


def test_the_winners_number_is_not_inflated_by_choosing() -> None:
    # 30 configurations that answer by the toss of a coin are all worth 0.5. The best of them, on all questions, looks
    # better than that; on the half that did not choose it, it is worth 0.5 on average.
    draw = random.Random(1)
    tossed = row(1, "+0" * 20)
    naive, honest = [], []
    for _ in range(12):
        rows = [dict(tossed) for _ in range(30)]
        for number, one in enumerate(rows, 1):
            one |= {"number": number, "outcomes": {q: SHORT[draw.choice("+0")] for q in one["outcomes"]}}
        naive.append(scores(rows).mean(axis=1).max())
        honest.append(analysis.best_on_heldout(rows).reported.value)
    # The mean of 40 tosses has a deviation of 0.079; the best of 30 lies two of them up.
    assert sum(naive) / 12 > 0.62
    assert sum(honest) / 12 == pytest.approx(0.5, abs=0.097)  # 12 means of 20 tosses: 3 deviations of 0.032


def test_what_is_not_told_apart_from_the_best() -> None:
    good, bad = "+" * 20 + "r" * 20, "0" * 20 + "-" * 20
    nearly = "+" * 19 + "0" + "r" * 20
    rows = [row(n, o, **{"retrieval.top_k": n}) for n, o in enumerate((bad, good, nearly, good), 1)]
    best = analysis.best_on_heldout(rows)
    assert best.row["number"] == 2  # the first of equals
    assert best.same == (3, 4)


def test_another_seed_draws_other_halves() -> None:
    rows = [row(1, "+0" * 10 + "r-" * 10)]
    assert len({analysis.best_on_heldout(rows, seed).reported.value for seed in range(5)}) > 1


@pytest.mark.parametrize("outcomes", ["+", "EEEE"])
def test_too_few_questions_for_two_halves(outcomes: str) -> None:
    with pytest.raises(ValueError, match="too few scored questions"):
        analysis.best_on_heldout([row(1, outcomes)])


def test_rows_of_different_sweeps_are_not_compared() -> None:
    with pytest.raises(ValueError, match="Rows 1 and 2 have different questions"):
        scores([row(1, "+0"), row(2, "+00")])
    for function in (scores, report.sentences):
        with pytest.raises(ValueError, match="no rows"):
            function([])
    with pytest.raises(ValueError, match="no rows"):
        report.write_report([], "none.html")


def test_the_table_shows_what_differs() -> None:
    table = report.table([row(1, "+E", flag=False), row(2, "++", flag=True)])
    lines = table.splitlines()
    assert lines[0].startswith("| run | flag | mean score [95%] | correct | wrong |")
    assert lines[2].startswith("| 1 | false | 1.000")
    assert lines[2].endswith("| 1 | 0 | 0 | 0 | 0 | 1 |")  # one correct, one error
    assert len(report.table(GRID, 2).splitlines()) == 4
    assert swept(GRID) == ["chunking.strategy", "retrieval.top_k"]


def test_the_page_holds_everything_and_loads_nothing(tmp_path: Path) -> None:
    rows = [*GRID, row(5, "E+++rrrr", **{"chunking.strategy": "<b>&", "retrieval.top_k": 1})]
    path = report.write_report(rows, tmp_path / "made" / "report.html", title="A & B")
    text = path.read_text("utf-8")
    assert "<h1>A &amp; B</h1>" in text
    assert "&lt;b&gt;&amp;" in text
    assert "<b>&" not in text
    assert "1 answers failed" in text
    images = re.findall(r"<img [^>]*>", text)
    assert len(images) == 2
    assert all(re.fullmatch(r'<img alt="[^"]+" src="data:image/png;base64,[^"]+">', image) for image in images)
    assert not re.search(r"<(script|link|iframe)|http", text)
    assert "<tr class=same>" in text  # the best one is shaded


def runs(*outcomes: str, answerable: str = "") -> list[dict[str, Any]]:
    """Rows with these outcomes; ``answerable``: the ids of the positives, if the letters do not say."""
    rows = [row(n, letters, **{"retrieval.top_k": n}) for n, letters in enumerate(outcomes, 1)]
    return [one | ({"answerable": answerable.split()} if answerable else {}) for one in rows]


TOO_FEW = "too few scored questions for one half to choose"
POSITIVES, NEGATIVES = "Every question has an answer", "No question has an answer"


@pytest.mark.parametrize(
    ("rows", "said", "images"),
    [
        # All eight questions, four of them worth a point: nothing was chosen, so there are no halves.
        ([GRID[0]], ["Run 1 is the only one, so nothing was chosen: it scores 0.500 ["], 1),
        ([GRID[0]], ["(n = 8) on all questions"], 1),
        (runs("EE", answerable="q0"), ["it has no score", "2 answers failed"], 0),
        (runs("+", "0"), [TOO_FEW, POSITIVES], 2),
        (runs("r", "-"), [TOO_FEW, NEGATIVES], 2),
        (runs("E", "E"), [TOO_FEW, NEGATIVES, "2 answers failed"], 0),
        (runs("+E", "E0", answerable="q0 q1"), ["has no scored question on the other", POSITIVES, "2 answers"], 1),
        (runs("+rr", "+rr"), ["Best on", "On the other", "Not told", "Only one question has an answer, and one"], 2),
        (runs("++r", "++r"), ["Best on", "On the other", "Not told", "Only one question has no answer, and one"], 2),
    ],
)
def test_few_questions_or_one_configuration_have_a_page_that_says_what_it_cannot_show(
    rows: list[dict[str, Any]], said: list[str], images: int, tmp_path: Path
) -> None:
    sentences = report.sentences(rows)
    text = report.write_report(rows, tmp_path / "page.html").read_text("utf-8")
    assert len(sentences) == len(said)
    for part, sentence in zip(said, sentences, strict=True):
        assert part in sentence
        assert part in text
    assert text.count("<img") == images  # nothing to draw where nothing has a score
    assert ("What mattered" in text) == (images == 2)
    assert ("Shaded" in text) == ("Best on" in said)


def test_one_question_tells_nothing_apart() -> None:
    # Two positives, so one in each half: the other configuration is a point worse on it. Wilson's bound for 0 of 1 is
    # 3.84 / 4.84 = 0.793, so the difference may be as low as 1 - 0.793 · 2 = -0.587.
    rows = [row(1, "++", **{"retrieval.top_k": 1}), row(2, "00", **{"retrieval.top_k": 2})]
    assert analysis.best_on_heldout(rows).same == (2,)
    one = [row(1, "+", **{"retrieval.top_k": 1}), row(2, "0", **{"retrieval.top_k": 2})]
    effect = analysis.main_effects(one)[0]
    assert (effect.difference.value, effect.difference.high) == (1, 1)
    assert effect.difference.low == pytest.approx(-0.587, abs=0.001)
    assert not effect.found


def test_equal_differences_on_many_questions_are_an_effect() -> None:
    # Wilson's bound for 0 of 20 is 3.84 / 23.84 = 0.161: from 1 - 0.161 · 2 = 0.678.
    rows = [row(1, "+" * 20, **{"retrieval.top_k": 1}), row(2, "0" * 20, **{"retrieval.top_k": 2})]
    effect = analysis.main_effects(rows)[0]
    assert effect.difference.low == pytest.approx(0.678, abs=0.001)
    assert effect.found
