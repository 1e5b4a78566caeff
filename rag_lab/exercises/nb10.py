"""Notebook 10: a small folder of four file types and five languages, and the checks of its exercises."""

import json
import math
import tempfile
import warnings
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from rag_lab.datasets import load_questions
from rag_lab.documents import load_folder
from rag_lab.evaluation.question_checks import copies
from rag_lab.text.answer_matching import contains_answer
from rag_lab.types import Document

# Written for this notebook: an invented library. What a file holds, by its name; ``write_files`` makes the PDFs.
LIBRARY: dict[str, str | bytes] = {
    "rooms.md": "# Reading rooms\n\nThe rooms upstairs seat 80 people. Group rooms are booked a week ahead.\n",
    "lift.pdf": "The lift in the library is out of order until 14 March.",
    "hours.html": "<head><title>שעות פתיחה</title></head><h1>שעות פתיחה</h1>"
    "<p>הספרייה פתוחה בימי ראשון עד חמישי משמונה בבוקר. בימי שישי היא נסגרת בצהריים.</p>",
    "parking.md": "# پارکینگ\n\nپارکینگ کتابخانه برای اعضا رایگان است. دیگران باید ساعتی سه کرون بپردازند.\n",
    "fees.txt": "Читательский билет стоит двенадцать крон в год. Для студентов он бесплатный.\n",
    "returns.txt": "图书可以借阅四个星期。逾期还书每天罚款一元。\n",
    "cafe.html": "<h1>בית הקפה</h1><p>בית הקפה מגיש ארוחת בוקר. אפשר לשלם במזומן או בכרטיס.</p>",
    "talks.md": "# سخنرانی‌ها\n\nهر ماه نویسنده‌ای درباره کتاب تازه خود سخن می‌گوید. ورود آزاد است.\n",
    "printing.txt": "В зале стоят два принтера. Чёрно-белая страница стоит одну крону.\n",
    "lockers.txt": "储物柜在一楼，需要投入一枚硬币，离开时退还。\n",
    "scan.pdf": "",
    "old.txt": "Der Lesesaal schließt um acht.".encode("latin-1"),
    "members.csv": "name,since\n",
}

# Questions, six in the language of the file that answers them and two not: (language, question, document id).
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
    "draft.md": "---\ntitle: Draft\n\n# Draft\n\nIts front matter is never closed.\n",
    "LETTER.TXT": "Dear all, the office moves in May.\n",
    "menu.txt": "Café au lait\n".encode("latin-1"),
    "prices.csv": "item,price\n",
    ".notes.md": "# Notes\n\nNot for others.\n",
    "page.htm": "<h1>Page</h1><p>Visible.</p>",
    "app.html": "<script>write('Shown by a program only.')</script>",
}

# Exercise 3: the standard deviation of a question's score, and the half width that the interval is to have.
DEVIATION, HALF_WIDTH = 0.5, 0.05


def write_files(files: Mapping[str, str | bytes], folder: str | Path) -> Path:
    """Write the files: text as UTF-8, bytes as they are, and text for a ``.pdf`` as a page that holds it."""
    for name, content in files.items():
        if isinstance(content, str):
            content = pdf(content) if name.endswith(".pdf") else content.encode()
        (Path(folder) / name).write_bytes(content)
    return Path(folder)


def check_left_out(attempt: Collection[str]) -> str | None:
    """The names of ``FILES`` from which ``load_folder`` makes no document."""
    if isinstance(attempt, str) or not set(attempt) <= set(FILES):
        return f"give a set of names out of {', '.join(FILES)}"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = {document.metadata["file"] for document in load_folder(write_files(FILES, folder))}
    if kept := sorted(set(attempt) & read):
        return f"{', '.join(kept)} is read: the suffix may be in capitals, and .htm is HTML"
    missing = set(FILES) - read - set(attempt)
    if ".notes.md" in missing:
        return "one is left out without a warning: look at the first character of the names"
    if missing:
        return f"{len(missing)} more: a file must be of a known type, be UTF-8, be well formed and hold visible text"
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
        return f"none of the answers stands in the gold text {held!r}"
    if contains_answer(question.text, question.answers):
        return "the question holds its own answer"
    if copies(question.text, held):
        return "the question repeats its passage: to search for it would be no test; use a reader's words"
    return None


def check_how_many(attempt: float) -> str | None:
    """Questions for a 95% interval of ``HALF_WIDTH`` on both sides; a question more or less is accepted."""
    right = math.ceil((1.96 * DEVIATION / HALF_WIDTH) ** 2)
    if abs(attempt - right) <= 1:
        return None
    if abs(attempt - (DEVIATION / HALF_WIDTH) ** 2) <= 1:
        return "that is one standard error: a 95% interval reaches 1.96 of them to each side"
    if abs(attempt - 1.96 * DEVIATION / HALF_WIDTH) <= 1:
        return "that is the root of n: solve 1.96 · deviation / √n = half width for n"
    if abs(attempt - (2 * 1.96 * DEVIATION / HALF_WIDTH) ** 2) <= 4:
        return "the half width is to each side, not of the whole interval"
    return "solve 1.96 · deviation / √n = half width for n"


def pdf(*pages: str) -> bytes:
    """A PDF with one line of Latin text a page; no text gives an empty page, as a scan is for a program."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    for text in pages:
        page = writer.add_blank_page(400, 200)
        if not text:
            continue
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()
