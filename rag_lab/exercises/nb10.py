"""Questions to the files in data/library, and notebook 10's checks: None if the attempt is right, else a hint."""

import json
import math
import tempfile
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_lab.datasets import load_questions
from rag_lab.documents import load_folder
from rag_lab.evaluation.question_checks import copies
from rag_lab.exercises.hints import number_hint
from rag_lab.settings import DATA
from rag_lab.text.answer_matching import contains_answer
from rag_lab.types import Document

LIBRARY = DATA / "library"  # an invented library: files of four types in five languages, three of them unreadable

# Questions to it, six in the language of the file that answers them: (language, question, document id).
LIBRARY_QUESTIONS = (
    ("English", "How many people do the reading rooms seat?", "rooms"),
    ("English (PDF)", "Until when is the lift out of order?", "lift"),
    ("Hebrew", "מתי הספרייה נסגרת בימי שישי?", "hours"),
    ("Persian", "پارکینگ برای چه کسانی رایگان است؟", "parking"),
    ("Russian", "Сколько стоит читательский билет?", "fees"),
    ("Chinese", "图书可以借阅多久？", "returns"),
    ("English on Russian", "What does a reader's card cost a year?", "fees"),
    ("English on Chinese", "For how long may books be borrowed?", "returns"),
)

# Exercise 1.
FILES: dict[str, str | bytes] = {
    "rules.md": "# Rules\n\nBe on time.\n",
    "draft.md": "---\ntitle: Draft\n---\n\n",
    "LETTER.TXT": "Dear all, the office moves in May.\n",
    "menu.txt": "Café au lait\n".encode("latin-1"),
    "prices.csv": "item,price\n",
    ".notes.md": "# Notes\n\nNot for others.\n",
    "page.htm": "<h1>Page</h1><p>Visible.</p>",
    "app.html": "<script>write('Shown by a program only.')</script>",
}

# Exercise 3: the standard deviation of a question's score, and the half width that the interval should have.
DEVIATION, HALF_WIDTH = 0.5, 0.05


def check_left_out(attempt: Collection[str]) -> str | None:
    """The names of ``FILES`` from which ``load_folder`` makes no document."""
    if isinstance(attempt, str) or not set(attempt) <= set(FILES):
        return f"give a set of names out of {', '.join(FILES)}"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in FILES.items():
            (Path(folder) / name).write_bytes(content.encode() if isinstance(content, str) else content)
        read = {document.metadata["file"] for document in load_folder(folder)}
    if kept := sorted(set(attempt) & read):
        return f"{', '.join(kept)} is read: the suffix may be in capitals, and .htm is HTML"
    missing = set(FILES) - read - set(attempt)
    if ".notes.md" in missing:
        return "one is left out without a warning: look at the first character of the names"
    if missing:
        return f"{len(missing)} more: a file must be of a known type, be UTF-8 and hold visible text"
    return None


def check_record(attempt: Mapping[str, Any], documents: Sequence[Document]) -> str | None:
    """A record of a question about ``documents``, positive or negative, as ``questions.jsonl`` holds them."""
    fields = ("id", "text", "answers", "gold", "reference", "language")
    if not isinstance(attempt, Mapping) or not set(fields) <= set(attempt):
        return f"give a dictionary with {', '.join(fields)}"
    if not str(attempt["text"]).strip().endswith(("?", "？", "؟")):
        return "text is the question, with its question mark"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.jsonl"
        path.write_text(json.dumps(dict(attempt)) + "\n", encoding="utf-8")
        try:
            (question,) = load_questions(path, documents)
        except ValueError as error:
            return str(error)
    if not question.answerable:
        return None
    texts = {document.id: document.text for document in documents}
    held = " ".join(texts[span.doc_id][span.start : span.end] for span in question.gold)
    if not contains_answer(held, question.answers):
        return f"the gold text {held!r} holds none of the answers"
    if contains_answer(question.text, question.answers):
        return "the question holds its own answer"
    if copies(question.text, held):
        return "the question repeats its passage: searching for it would be no test; use a reader's words"
    return None


def check_how_many(attempt: float) -> str | None:
    """Questions for a 95% interval of ``HALF_WIDTH`` to each side; one more or fewer is accepted."""
    root = 1.96 * DEVIATION / HALF_WIDTH
    slips = {
        (DEVIATION / HALF_WIDTH) ** 2: "that is one standard error: a 95% interval reaches 1.96 of them to each side",
        root: "that is the root of n: solve 1.96 · deviation / √n = half width for n",
        (2 * root) ** 2: "the half width is to each side, not of the whole interval",
    }
    otherwise = "solve 1.96 · deviation / √n = half width for n"
    return number_hint(attempt, math.ceil(root**2), slips, otherwise, rel=0.0026, abs_=1)
